"""``hangtop evidence NODE…``: what the job itself can tell (recorder, RAS, native stacks), and what is missing."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.diagnosis.evidence.sources import evidence_sources
from hangtop.session.session import Session

VERSIONS = 3.0
"""Seconds to wait for the versions of the ranks' libraries once they were looked up: a few looks."""
MARKS = {"told": "✓", "there": "·", "missing": "✗"}


@node_command("evidence", json="docs/findings.md", hidden=("interval", "patience"), needs=("software",))
async def command(run: NodeRun) -> Reply:
    """List what the job itself can tell: what each source says, or why it is missing and what the next run needs.

    Only reads. Exit code: 0 listed, 1 no rank runs there, 2 wrong usage, 3 no node reachable.
    """
    session = run.session
    await _versions_known(session)
    run.status.say("asking what lies there")
    await session.job_sources.recorders()
    if not run.options.read_only:
        await session.dump_stacks(None, unasked=True)
    if session.progress.motion.moving is not True:
        await session.job_sources.ras()
    run.status.clear()
    sources = evidence_sources(session.job(), session.job_sources.ras_fault)
    lines = [] if sources else ["no rank runs on these nodes"]
    for source in sources:
        lines.append(f"{MARKS[source.state]} {source.name:<22} {source.text}")
        lines += [f"  {'':<22} → {source.how}"] if source.how else []
    return Reply({"sources": [asdict(source) for source in sources]}, lines, int(not sources))


async def _versions_known(session: Session) -> None:
    """Wait for the versions of the ranks' libraries: they come a look after the source that reads them."""
    for _ in range(round(VERSIONS / 0.1)):
        if any(rank.process.versions for rank in session.living()):
            return
        await asyncio.sleep(0.1)
