"""``hangtop stacks NODE…``: the stacks of all ranks, or of some, merged: who does the same, and who does not."""

from __future__ import annotations

import json as codec
from collections.abc import Collection, Iterator
from typing import Any

import click

from collectors.samples.stacks import StackDump
from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session, tell_unreached
from hangtop.cli.layout import LaidOut
from hangtop.cli.ranks import Ranks
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.stacks import Activity, Merged, StackGroup, as_folded, as_text, merge, summary
from hangtop.session.options import SessionOptions

SCHEMA = 1


@click.command("stacks", cls=LaidOut)
@nodes
@connection_but("interval", "patience")
@click.option("--rank", "ranks", type=Ranks(), help="Only these ranks, such as 3,7-9.")
@click.option("--samples", metavar="N", type=click.IntRange(1, 100), default=1, show_default=True,
              help="Looks at each rank, half a second apart: several tell moving from frozen.")  # fmt: skip
@click.option(
    "--native",
    is_flag=True,
    help="Native frames too: pauses a rank for up to 25 ms and costs its node half a second of CPU.",
)
@click.option("--json", is_flag=True, help="Groups and every rank's frames as JSON.")
@click.option("--folded", is_flag=True, help="Folded stacks, one path a line, for flame graph tools.")
@click.pass_context
def command(
    ctx: click.Context, options: SessionOptions, ranks: frozenset[int] | None, samples: int, native: bool,
    json: bool, folded: bool,
) -> None:  # fmt: skip
    """Show where all ranks are: ranks at the same point together, the smallest group first.

    Only reads, without pausing a rank, unless a read stays torn (then for under 1 ms), or --native is given.
    Exit code: 0 when every rank that was asked for gave frames, 1 when one did not, 2 wrong usage, 3 no node reachable.
    """
    if json and folded:
        raise click.UsageError("--json and --folded are two answers: choose one")
    if native and options.read_only:
        raise click.UsageError("--read-only refuses --native: it pauses every rank")
    job, entries = interrupted_cleanly(_look(options, ranks, native, samples))
    merged = merge(entries)
    missing = _missing(job, ranks, merged)
    if json:
        click.echo(codec.dumps(_as_json(job, merged, missing), indent=2, ensure_ascii=False))
    elif folded:
        click.echo(as_folded(merged), nl=False)
    else:
        click.echo(as_text(merged) or "no ranks found: is the job running on these nodes?\n", nl=False)
        for rank in sorted(missing):
            click.echo(f"\n{rank_text(rank)}: not found on these nodes", err=True)
    ctx.exit(_exit_code(job, merged, missing))


async def _look(
    options: SessionOptions, ranks: Collection[int] | None, native: bool, samples: int
) -> tuple[Job, list[tuple[int, StackDump]]]:
    status = Status()
    async with connected_session(options, status) as session:
        tell_unreached(session)
        job = session.job()
        status.say(f"looking at the stacks of {len(job.ranks)} ranks")
        dumps = await session.dump_stacks(ranks, native=native, samples=samples)
        status.clear()
        return job, list(_by_rank(job, dumps))


def _by_rank(job: Job, dumps: Collection[tuple[str, StackDump]]) -> Iterator[tuple[int, StackDump]]:
    """Dumps with the global ranks that they belong to."""
    owners = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    for node, dump in dumps:
        rank = owners.get((node, dump.rank_pid))
        if rank is not None:
            yield rank, dump


def _missing(job: Job, ranks: Collection[int] | None, merged: Merged) -> set[int]:
    """Ranks that were asked for, or that the job must have, and that were not found."""
    wanted = set(ranks) if ranks is not None else set(range(job.world_size or 0))
    return wanted - set(merged.activities)


def _exit_code(job: Job, merged: Merged, missing: Collection[int]) -> int:
    if job.nodes and all(node.seen_at is None for node in job.nodes.values()):
        return 3
    return int(bool(missing) or not merged.groups or any(doing.error for doing in merged.activities.values()))


# --- JSON --------------------------------------------------------------------------------------------------------


def _as_json(job: Job, merged: Merged, missing: Collection[int]) -> dict[str, Any]:
    """The answer of plain JSON types; ``docs/stacks.md`` describes it."""
    ranks = {rank.rank: rank for rank in job.ranks}
    return {
        "schema": SCHEMA,
        "samples": merged.looks,
        "missing": sorted(missing),
        "groups": [_group(group) for group in merged.groups],
        "ranks": [_rank(ranks[rank], doing) for rank, doing in merged.activities.items()],
    }


def _group(group: StackGroup) -> dict[str, Any]:
    return {
        "ranks": sorted(group.ranks),
        "folded": group.folded,
        "summary": summary(group),
        "frames": [{"text": line.text, "differs": line.differs} for line in group.lines],
    }


def _rank(rank: Rank, doing: Activity) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "node": rank.node,
        "pid": rank.process.pid,
        "kind": doing.kind,
        "op": doing.op,
        "label": doing.label,
        "waits": doing.waits,
        "context": sorted(doing.context),
        "group": doing.group,
        "peer": doing.peer,
        "where": doing.where,
        "moving": doing.moving,
        "cpu": doing.cpu,
        "state": doing.state,
        "wchan": doing.wchan,
        "syscall": doing.syscall,
        "waiting_on": doing.waiting_on,
        "error": f"{doing.error}: {doing.said}" if doing.error else "",
        "frames": list(reversed(doing.frames)),
        "threads": [{"name": note.name, "role": note.role, "where": note.where} for note in doing.others],
    }
