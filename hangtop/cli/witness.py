"""``hangtop witness …``: the job's own evidence (recorder, RAS, logs), and what only a yes can bring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict

import click

from hangtop.cli.groups import DefaultGroup
from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.diagnosis.evidence.sources import ladder
from hangtop.session.probes import Probe, ProbeRefused, plain
from hangtop.session.session import Session

VERSIONS = 3.0
"""Seconds to wait for the versions of the ranks' libraries once they were looked up: a few looks."""
MARKS = {"told": "✓", "there": "·", "missing": "✗"}
WATCHED = ("interval", "patience")


@node_command("list", json="docs/findings.md", hidden=WATCHED, needs=("software",))
async def list_command(run: NodeRun) -> Reply:
    """List the job's own witnesses: what each says, or why it is missing and what the next run needs. Only reads.

    Exit code: 0 listed, 1 no rank runs there, 2 wrong usage, 3 no node reachable.
    """
    session = run.session
    await _versions_known(session)
    run.status.say("asking what lies there")
    await session.witnesses.recorders()
    if not run.options.read_only:
        await session.dump_stacks(None, unasked=True)
    if session.progress.motion.moving is not True:
        await session.witnesses.ras()
    run.status.clear()
    rungs = ladder(session.job(), session.witnesses.ras_fault)
    lines = [] if rungs else ["no rank runs on these nodes"]
    for rung in rungs:
        lines.append(f"{MARKS[rung.state]} {rung.name:<22} {rung.text}")
        lines += [f"  {'':<22} → {rung.how}"] if rung.how else []
    return Reply({"rungs": [asdict(rung) for rung in rungs]}, lines, int(not rungs))


async def _versions_known(session: Session) -> None:
    """Wait until the ranks' libraries are known: ranks are told with them a look after the source that reads them."""
    for _ in range(round(VERSIONS / 0.1)):
        if any(rank.process.versions for rank in session.living()):
            return
        await asyncio.sleep(0.1)


def _consent_command(name: str, probe_of: Callable[[Session], Probe], text: str) -> click.Command:
    """A command that shows what will be done in the job, asks, does it and prints what came."""

    async def work(run: NodeRun) -> Reply:
        await _versions_known(run.session)
        try:
            probe = probe_of(run.session)
            run.agree(f"{probe.brief}. Go on?", probe.command, probe.risk)
            run.status.say(probe.title)
            result = await probe.run(run.status.say)
        except ProbeRefused as refused:
            raise click.ClickException(str(refused)) from None
        return Reply(dict(result.figures), plain(result.lines))

    work.__doc__ = text
    return node_command(
        name, json="lines", yes="Do not ask: for scripts.", changes="this: it does something in the job",
        hidden=WATCHED, needs=("software",),
    )(work)  # fmt: skip


def _counts(session: Session) -> Probe:
    from hangtop.session.probes.ras import counts

    return counts(session)


def _diagnostics(session: Session) -> Probe:
    from hangtop.session.probes.ras import diagnostics

    return diagnostics(session)


status_command = _consent_command(
    "status", _counts,
    """Have NCCL's RAS say what each rank has launched, where it is not asked by itself (NCCL 2.24 to 2.28).

    Those can crash a job that is asked, so this asks first. Exit code: 0 answered, 1 it cannot be asked, 2 wrong usage,
    3 no node reachable.
    """,
)  # fmt: skip
diagnose = _consent_command(
    "diagnose", _diagnostics,
    """Have NCCL's RAS compare GPUs, driver, ECC errors, NVLinks and NCCL settings of all ranks (NCCL 2.31).

    Asks first. Exit code: 0 answered, 1 it cannot be asked, 2 wrong usage, 3 no node reachable.
    """,
)  # fmt: skip

command = DefaultGroup(
    "witness",
    default="list",
    commands={"list": list_command, "status": status_command, "diagnose": diagnose},
    help="The job's own witnesses: what each says or lacks; and, after asking, what NCCL's RAS tells from within. "
    "With nodes alone: list.",
)
