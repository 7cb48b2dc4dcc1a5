"""``hangtop analyze PATH…``: the verdict on a finished job, from its logs, dumps and tool output."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hangtop.cli.options import SectionedCommand
from hangtop.cli.terminal import Status
from hangtop.diagnosis.phrasing import size
from hangtop.session.folder.documents import Recognised
from hangtop.session.folder.files import PIPED

if TYPE_CHECKING:
    from collectors.samples.collectives import RankTrace
    from hangtop.diagnosis.traces import TracePicture

NAMED = 12
"""Most files that the text names; the JSON has all."""
TRACE_HEADS = ("rank", "wall", "compute", "communication", "exposed", "data", "idle", "late")


@click.command("analyze", cls=SectionedCommand)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", is_flag=True, help='Answer as JSON, with the files under "files".')
def command(paths: tuple[Path, ...], json: bool) -> None:
    """Judge a finished job from any mix of files, without SSH, torch or the job itself.

    PATH is a file, a folder, an archive (tar, tar.gz, gz), or - for standard input: rank logs, merged logs, Slurm
    output, NCCL logs, torchelastic folders, flight recorder dumps, profiler traces, saved stacks, RAS reports, dmesg.
    Files of several jobs are judged as one job. Exit code: 0 healthy, 1 a fault, 2 wrong usage, 5 the files do not
    suffice for a verdict, 6 waiting.
    """
    from hangtop.cli.answer import Answer, Reply, finish, reply_of
    from hangtop.diagnosis.verdict.verdict import diagnose
    from hangtop.session.folder.session import FilesSession

    began, status = time.monotonic(), Status()
    if missing := next((path for path in paths if path != PIPED and not path.exists()), None):
        raise click.UsageError(f"{missing}: no such file")
    if PIPED in paths and sys.stdin.isatty():
        raise click.UsageError("-: standard input is a terminal; name files, or: ssh node1 cat log | hangtop analyze -")
    try:
        session = FilesSession(paths, status.say)
    finally:
        status.clear()
    job = session.job()
    reply = reply_of(Answer(diagnose(job), job, time.monotonic() - began))
    document, lines = {**reply.document, "files": list(map(_file, session.files))}, list(reply.lines)
    if session.traces is not None:
        document["traces"] = [_trace(session.traces, trace) for trace in session.traces.ranks]
        lines += _trace_lines(session.traces)
    finish(Reply(document, (*lines, *_summary(session.files)), reply.exit_code), as_json=json)


def _file(file: Recognised) -> dict[str, Any]:
    """The JSON of one file."""
    row = {"path": file.name, "kind": file.kind or None, "bytes": file.size, "lines": file.lines}
    return row | {"events": file.events, "why": file.why}


def _trace(seen: TracePicture, trace: RankTrace) -> dict[str, Any]:
    """The JSON of one rank's profiler trace, without its single calls, with its late arrivals at collectives."""
    row = {name: value for name, value in trace._asdict().items() if name != "calls"}
    late = seen.lateness.get(trace.rank)
    return row | {"late": late and late.late, "late_of": late and late.met, "held_up": late and late.held_up}


def _trace_lines(seen: TracePicture) -> Iterator[str]:
    """A table of each rank's shares of time, and its late arrivals among the collectives that had any."""
    from hangtop.diagnosis.traces import lasting
    from hangtop.session.probes import table

    rows = []
    for trace in seen.ranks:
        name, late = trace.path.rsplit("/", 1)[-1][:24], seen.lateness.get(trace.rank)
        parts = (trace.compute, trace.communication, trace.exposed, trace.data, trace.idle)
        shares = [f"{seconds / trace.wall:.0%}" if trace.wall else "–" for seconds in parts]
        often = f"{late.late}/{late.met}" if late and late.met else "–"
        rows.append((name if trace.rank is None else str(trace.rank), lasting(trace.wall), *shares, often))
    yield from ("", "profiler traces:", *table(TRACE_HEADS, rows))


def _summary(files: Sequence[Recognised]) -> Iterator[str]:
    """Lines that list recognised files by kind, and damaged files by name."""
    yield from ("", "read:" if files else "read: no file")
    for kind, count in Counter(file.kind for file in files if file.kind).most_common():
        alike = [file for file in files if file.kind == kind]
        names = ", ".join(file.name for file in alike[:3]) + (" …" if count > 3 else "")
        yield f"- {count} × {kind} ({size(sum(file.size for file in alike))}): {names}"
    if damaged := [file for file in files if file.why]:
        yield "not read, or only in part:"
        yield from (f"- {file.name}: {file.why}" for file in damaged[:NAMED])
        if len(damaged) > NAMED:
            yield f"- and {len(damaged) - NAMED} more (--json has all)"
