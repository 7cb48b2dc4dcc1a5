"""``hangtop check CHECK NODE…``: asks a running job for a check that it makes of itself, and gives its answer."""

from __future__ import annotations

import asyncio
import json as codec
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from collectors.samples.inside import InsideFinding, InsideResult
from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session, need_a_node
from hangtop.cli.consent import ask as ask_person
from hangtop.cli.consent import refuse_read_only
from hangtop.cli.layout import LaidOut
from hangtop.cli.ranks import Ranks
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.session.asking.inside import COSTS, DEADLINE, CheckOrder, InsideRefused, ask_ranks, plan, step_seconds
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session

SCHEMA = 1
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


@click.command("check", cls=LaidOut)
@click.argument("check", metavar="CHECK", type=click.Choice(list(COSTS)))
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--rank", "ranks", type=Ranks(), default=frozenset(),
              help="The ranks of one process group, such as 0,2,4-7: it alone makes the check.")  # fmt: skip
@click.option("--wait", metavar="S", type=click.FloatRange(1, 3600), default=30.0, show_default=True,
              help="Seconds to wait for two steps of the job: they tell which one to ask for.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask: for scripts.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/inside.md).")
@click.pass_context
def command(
    ctx: click.Context, check: str, options: SessionOptions, ranks: frozenset[int], wait: float, yes: bool, json: bool
) -> None:
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
    refuse_read_only(options, "checks: they hold the job for a moment")
    answered = interrupted_cleanly(_check(options, check, ranks, wait, yes=yes))
    click.echo(codec.dumps(as_json(answered), indent=2, ensure_ascii=False) if json else "\n".join(as_text(answered)))
    ctx.exit(int(not answered.ok))


async def _check(options: SessionOptions, check: str, ranks: frozenset[int], wait: float, *, yes: bool) -> CheckAnswer:
    status = Status()
    async with connected_session(options, status) as session:
        need_a_node(session)
        try:
            order = await _planned(session, check, ranks, wait, status)
            click.echo(order.command(), err=True)
            ask_person(f"{order.title().capitalize()}: {order.cost()} Go on?", yes=yes)
            # whoever was asked took their time: the step that was named may be over
            order = await _planned(session, check, ranks, wait, status)
            missed = await ask_ranks(session, order)
        except InsideRefused as refused:
            raise click.ClickException(str(refused)) from None
        for line in missed:
            click.echo(f"cannot be asked: {line}", err=True)
        return CheckAnswer(order, tuple(missed), {} if missed else await _answers(session, order, status))


async def _planned(session: Session, check: str, ranks: frozenset[int], wait: float, status: Status) -> CheckOrder:
    """The question, once two steps were seen. Raises :class:`InsideRefused`."""
    began = time.monotonic()
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


async def _answers(session: Session, order: CheckOrder, status: Status) -> dict[int, InsideResult]:
    """By rank, as they come; until all have, or time is up."""
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
        "schema": SCHEMA,
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
