"""``hangtop stacks NODE…``: the stacks of ranks now."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import click

from collectors.samples.stacks import StackDump
from hangtop.cli.answer import Reply
from hangtop.cli.node_command import NodeRun, node_command
from hangtop.cli.options import RANKS
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.stacks.merge import Merged, StackGroup, as_text, merge, summary
from hangtop.diagnosis.stacks.states import Activity

COPIED = tuple("kind op label waits peer where moving cpu state wchan syscall waiting_on".split())
"""Fields of an activity that the JSON copies."""


@node_command("stacks", hidden=("interval", "patience"))
@RANKS
@click.option("--samples", metavar="N", type=click.IntRange(1, 100), default=1, show_default=True,
              help="Samples of each rank, half a second apart: two or more show which ranks move.")  # fmt: skip
@click.option("--native", is_flag=True,
              help="Also native frames: pauses each rank for up to 25 ms and takes half a second of CPU on its node.",
              )  # fmt: skip
async def command(run: NodeRun, ranks: frozenset[int] | None, samples: int, native: bool) -> Reply:
    """Show the stacks of all ranks, with equal stacks grouped, the smallest group first.

    Does not pause a rank, except for under 1 ms if its memory changes during every read, or with --native.
    Exit code: 0 if every wanted rank gave frames, 1 if a rank did not, 2 wrong usage, 3 no node reachable.
    """
    if native and run.options.read_only:
        raise click.UsageError("--read-only refuses --native: it pauses every rank")
    job = run.session.job()
    run.status.say(f"taking the stacks of {len(job.ranks)} ranks")
    dumps = await run.session.job_sources.stacks(ranks, native=native, samples=samples)
    run.status.clear()
    return stacks_reply(job, merge(list(_by_rank(job, dumps))), ranks)


def stacks_reply(job: Job, merged: Merged, ranks: Collection[int] | None) -> Reply:
    """The reply: groups and ranks, and the ranks missing among ``ranks`` (None: all ranks of the job)."""
    wanted = set(ranks) if ranks is not None else set(range(job.world_size or 0))
    missing = sorted(wanted - set(merged.activities))
    text = as_text(merged) or "no ranks found: is the job running on these nodes?"
    text = "\n\n".join([text.rstrip("\n"), *(f"{rank_text(rank)}: not found on these nodes" for rank in missing)])
    failed = missing or not merged.groups or any(doing.error for doing in merged.activities.values())
    return Reply(_as_json(job, merged, missing), text.splitlines(), int(bool(failed)))


def _by_rank(job: Job, dumps: Collection[tuple[str, StackDump]]) -> Iterator[tuple[int, StackDump]]:
    """Dumps, each with its global rank."""
    owners = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    for node, dump in dumps:
        rank = owners.get((node, dump.rank_pid))
        if rank is not None:
            yield rank, dump


def _as_json(job: Job, merged: Merged, missing: Collection[int]) -> dict[str, Any]:
    """The answer as plain JSON types, as in ``docs/findings.md``."""
    ranks = {rank.rank: rank for rank in job.ranks}
    return {
        "samples": merged.samples,
        "missing": sorted(missing),
        "groups": [_group(group) for group in merged.groups],
        "ranks": [_rank(ranks[rank], doing) for rank, doing in merged.activities.items()],
    }


def _group(group: StackGroup) -> dict[str, Any]:
    frames = [{"text": line.text, "differs": line.differs} for line in group.lines]
    return {"ranks": sorted(group.ranks), "folded": group.folded, "summary": summary(group), "frames": frames}


def _rank(rank: Rank, doing: Activity) -> dict[str, Any]:
    return {
        "rank": rank.rank, "node": rank.node, "pid": rank.process.pid,
        **{name: getattr(doing, name) for name in COPIED},
        "context": sorted(doing.context),
        "error": f"{doing.error}: {doing.detail}" if doing.error else "",
        "frames": list(reversed(doing.frames)),
        "threads": [{"name": note.name, "role": note.role, "where": note.where} for note in doing.others],
    }  # fmt: skip
