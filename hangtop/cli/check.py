"""``hangtop check CHECK NODE…``: asks a running job for a check that it makes of itself, and gives its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from collectors.samples.inside import InsideFinding, InsideResult
from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.cli.options import Ranks
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.session.asking.inside import COSTS, DEADLINE, CheckOrder, InsideRefused, ask_ranks, plan, step_seconds
from hangtop.session.session import Session

STEP = 0.2
"""Seconds between two looks at what has come."""
FOUND = 5.0
"""Seconds in which the pages of all ranks have been found."""
GRACE = 10.0
"""Seconds beyond the job's own deadline in which its answer may come over the wire."""
EVIDENCE = 8
"""Lines of evidence of one finding that people are shown; scripts get all."""


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What came of one question."""

    order: CheckOrder
    missed: tuple[str, ...]
    """Whom it could not be put to, and why: then nobody makes it."""
    results: dict[int, InsideResult]
    """By rank."""

    @property
    def silent(self) -> list[int]:
        """Ranks that gave no answer in time, or could not be asked."""
        return [rank.rank for rank in self.order.ranks if rank.rank not in self.results]

    @property
    def ok(self) -> bool:
        """All answered, and nothing is wrong."""
        return not self.silent and all(result.ok for result in self.results.values())

    def findings(self) -> list[InsideFinding]:
        """Each once, though all ranks that took part tell it."""
        found: dict[tuple[str, str], InsideFinding] = {}
        for result in self.results.values():
            for finding in result.findings:
                found.setdefault((finding.kind, finding.summary), finding)
        return list(found.values())

    def summaries(self) -> list[str]:
        """One for each group that made it."""
        return list(dict.fromkeys(result.summary for result in self.results.values()))


@node_command("check", json="docs/inside.md", yes="Do not ask: for scripts.",
              changes="checks: they hold the job for a moment")  # fmt: skip
@click.argument("check", metavar="CHECK", type=click.Choice(list(COSTS)))
@click.option("--rank", "ranks", type=Ranks(), default=frozenset(),
              help="The ranks of one process group, such as 0,2,4-7: it alone makes the check.")  # fmt: skip
@click.option("--wait", metavar="S", type=click.FloatRange(1, 3600), default=30.0, show_default=True,
              help="Seconds to wait for two steps of the job: they tell which one to ask for.")  # fmt: skip
async def command(run: NodeRun, check: str, ranks: frozenset[int], wait: float) -> Reply:
    r"""Ask a job that called hangtop.inside.start() for one of its own checks, at the end of a step.

    \b
    same        replicas hold the same parameters, buffers and states, bit by bit
    placement   every parameter lies, and is split, alike on all ranks
    mesh        the dimensions of the device mesh fit the ranks
    barrier     who comes, and who does not
    bandwidth   what all-reduces of 1 to 64 MiB between the ranks carry
    stragglers  which ranks need longer for the same work

    Holds all its ranks, or those of --rank, at the end of that step until all have come, a minute at most; what each
    check costs is said before it is asked for. Exit code: 0 nothing is wrong, 1 something is, or not all ranks
    answered, or the job cannot be asked, 2 wrong usage, 3 no node reachable.
    """
    try:
        order = await _planned(run, check, ranks, wait)
        run.agree(f"{order.title().capitalize()}: {order.cost()} Go on?", order.command())
        # whoever was asked took their time: the step that was named may be over
        order = await _planned(run, check, ranks, wait)
        missed = await ask_ranks(run.session, order)
    except InsideRefused as refused:
        raise click.ClickException(str(refused)) from None
    for line in missed:
        click.echo(f"cannot be asked: {line}", err=True)
    answered = CheckAnswer(order, tuple(missed), {} if missed else await _answers(run, order))
    return Reply(as_json(answered), as_text(answered), int(not answered.ok))


async def _planned(run: NodeRun, check: str, ranks: frozenset[int], wait: float) -> CheckOrder:
    """The question, once two steps were seen. Raises :class:`InsideRefused`."""
    session, status, began = run.session, run.status, time.monotonic()
    while True:
        every = step_seconds(session.state.nodes.values())
        try:
            order = plan(session.job(), check, every, ranks)
        except InsideRefused as refused:
            waited = time.monotonic() - began
            if not refused.passing and waited >= min(FOUND, wait):
                raise
            if waited >= wait:
                raise InsideRefused(f"no two steps were seen to be done in {wait:g} s: --wait gives longer") from None
        else:
            status.clear()
            return order
        status.say("waiting for the job's next steps")
        await asyncio.sleep(STEP)


async def _answers(run: NodeRun, order: CheckOrder) -> dict[int, InsideResult]:
    """By rank, as they come; until all have, or time is up."""
    session, status = run.session, run.status
    every = step_seconds(session.state.nodes.values()) or 0.0
    last = max((rank.inside.pulse.step or 0 for rank in order.ranks if rank.inside is not None), default=0)
    until = time.monotonic() + (order.at_step - last) * every + DEADLINE + GRACE
    while True:
        found = _found(session, order)
        if len(found) == len(order.ranks) or time.monotonic() >= until:
            status.clear()
            return found
        status.say(f"{len(found)} of {count(len(order.ranks), 'rank')} answered (step {order.at_step:,})")
        await asyncio.sleep(STEP)


def _found(session: Session, order: CheckOrder) -> dict[int, InsideResult]:
    found = {}
    for rank in order.ranks:
        known = session.state.nodes[rank.node].ranks.get(rank.process.pid)
        inside = None if known is None else known.inside
        for result in () if inside is None else inside.results:
            if result.number == order.number:
                found[rank.rank] = result
    return found


# --- the answer --------------------------------------------------------------------------------------------------


def as_json(answered: CheckAnswer) -> dict[str, Any]:
    """The answer of plain JSON types; ``docs/inside.md`` describes it."""
    return {
        "check": answered.order.check,
        "group": list(answered.order.within),
        "at_step": answered.order.at_step,
        "ok": answered.ok,
        "summaries": answered.summaries(),
        "findings": [finding._asdict() for finding in answered.findings()],
        "ranks": sorted(answered.results),
        "silent": sorted(answered.silent),
        "not_asked": list(answered.missed),
        "seconds": max((result.seconds for result in answered.results.values()), default=0.0),
    }


def as_text(answered: CheckAnswer) -> Iterable[str]:
    """The answer for people."""
    ok = click.style("✓", fg="green") if answered.ok else click.style("✗", fg="red")
    for summary in answered.summaries():
        yield f"{ok} {answered.order.title()} after step {answered.order.at_step:,}: {summary}"
    for finding in answered.findings():
        yield f"  {finding.kind} ({finding.severity}): {finding.summary}"
        yield from (f"    {line}" for line in finding.evidence[:EVIDENCE])
        if finding.advice:
            yield f"    → {finding.advice}"
    if answered.missed:
        yield f"{click.style('✗', fg='red')} {answered.order.title()}: nobody makes it, as not all could be asked"
    elif answered.silent:
        yield f"{click.style('✗', fg='red')} no answer of {ranks_text(answered.silent)}"
