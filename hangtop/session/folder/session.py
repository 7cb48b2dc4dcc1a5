"""A folder of logs, dumps and tool outputs as an ordinary session, in which nothing moves any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from collectors.fleet.clean import clean
from collectors.fleet.sink import LinkChange
from collectors.formats import BadFormat
from collectors.node.resources import reuse_memory
from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.traces import picture
from hangtop.session.folder.documents import FILES, TEXTS, Contents, Recognised
from hangtop.session.folder.files import Member, is_binary, members
from hangtop.session.folder.joining import Process, joined, ranks_of_processes, same_communicators, world_size
from hangtop.session.folder.logs import read_log
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.state import Kept

EVENT_BYTES = 1 << 30
"""Bytes of memory for the events of all files: more than in a live session, because nothing else will come."""
LARGEST_OUTPUT = 8 << 20
"""Bytes at the beginning of a text that are read as tool output: enough for hundreds of reports."""


def read(paths: Sequence[Path], say: Callable[[str], None]) -> Contents:
    """The contents of everything under the paths; ``say`` gets a line for each file."""
    reuse_memory()
    contents = Contents()
    for member in members(paths):
        say(f"reading {member.name}")
        contents.newest = max(member.modified, contents.newest)
        contents.files.append(_read(member, contents))
    return contents


def _read(member: Member, contents: Contents) -> Recognised:
    if not member.head:
        return Recognised(member.name, "" if member.damage else "empty", 0, why=member.damage)
    if (file := next((one for one in FILES if one.looks_like(member.head)), None)) is not None:
        try:
            items = file.take(member, contents)
        except BadFormat as error:
            return Recognised(member.name, "", member.size, why=f"looks like a {file.kind}: {clean(str(error))[:300]}")
        return Recognised(member.name, file.kind, member.size, 0, items, member.damage)
    if is_binary(member.head):
        return Recognised(member.name, "", len(member.head), why="binary, and no kind that is known")
    head, begin = member.head.decode("utf-8", "replace"), bytearray()
    tool = next((one for one in TEXTS if one.looks_like(head)), None)
    lines, log = read_log(member, member.chunks() if tool is None else _keeping(member.chunks(), begin))
    found, kind = 0, "log"
    if tool is not None:
        with suppress(BadFormat):  # it was a log after all
            found = tool.take(begin.decode("utf-8", "replace"), member, contents)
        if found and {event.kind for event in log.events} <= {"log.end", "nccl.version"}:
            return Recognised(member.name, tool.kind, member.size, lines, found, member.damage)
        kind = f"log, {tool.kind} above it" if found else kind
    contents.events += log.events
    contents.progress += log.progress
    contents.members += log.members
    items = found + len(log.events) - 1 + len(log.progress)  # without log.end, which every log has
    return Recognised(member.name, kind, member.size, lines, items, member.damage)


def _keeping(chunks: Iterable[bytes], begin: bytearray) -> Iterator[bytes]:
    """The chunks; the first ones, up to :data:`LARGEST_OUTPUT` bytes, are also added to ``begin``."""
    for chunk in chunks:
        if len(begin) < LARGEST_OUTPUT:
            begin += chunk
        yield chunk


class FilesSession(Session):
    """A session with the contents of files, delivered as nodes would have sent them; ``files`` lists the files."""

    live = False

    def __init__(
        self, paths: Sequence[Path], say: Callable[[str], None] = lambda _: None, *, now: float | None = None
    ) -> None:
        """Read everything under the paths; ``now`` is the session's time, the present if None."""
        contents = read(paths, say)
        at = time.time() if now is None else now
        super().__init__(SessionOptions(read_only=True), clock=lambda: at)
        self.files = contents.files
        self._written = min(contents.newest or at, at)
        """When the newest file was written: events without a time are from before that."""
        self._deliver(contents)
        self.state.started = self._written

    def _deliver(self, contents: Contents) -> None:
        state = self.state
        state.events = Kept(EVENT_BYTES)
        processes = ranks_of_processes(contents)
        contents.events = joined(contents.events, processes)
        size = world_size(contents)
        homes = {rank: process for process, rank in processes.items() if process[0]}
        for rank, (host, pid) in sorted(homes.items()):  # if a rank has several processes, the last one counts
            self.samples(host, [_process(rank, pid, size)])
        for host, of_host in groupby(contents.events, key=lambda event: event.host):
            self.samples(host, list(of_host))
        for progress in same_communicators(contents.progress, processes):
            self.samples(progress.host, [progress])
        for node, _, dump in sorted(contents.stacks, key=lambda entry: (entry[0], entry[2].pid, entry[2].at)):
            self.stacks(node, [dump])
        for recorder in contents.recorders:
            self.take_report(recorder)
        for report in sorted(contents.ras, key=lambda report: report.at):
            self.take_report(report)
        for node in state.nodes:
            self.link(LinkChange(node, "offline", "read from files", self._written))
        self._size = size
        self._stack_ranks = _stack_ranks(contents, processes)
        self.traces = picture(contents.traces) if contents.traces else None

    def job_of(self, snapshot: Job) -> Job:
        """The job of a snapshot with the world size, stacks and traces from the files, without the nameless node."""
        job = super().job_of(snapshot)
        return replace(
            job,
            watched=0.0,
            nodes={name: node for name, node in job.nodes.items() if name},
            world_size=job.world_size or self._size,
            stack_ranks=self._stack_ranks,
            traces=self.traces,
        )


def _process(rank: int, pid: int, size: int | None) -> RankProcess:
    """A rank's process of which only pid, rank and world size are known."""
    unknown = dict.fromkeys(RankProcess._fields)
    words = ("master_addr", "command", "cwd", "container", "user", "stdout", "stderr", "nccl_log")
    known: dict[str, object] = {"pid": pid, "started": 0.0, "rank": rank, "world_size": size, "parent": 0, "uid": -1}
    known |= {"env": {}, "versions": {}, **dict.fromkeys((*words, "launcher", "run_id"), "")}
    return RankProcess(**{**unknown, **known, **RankProcess._field_defaults})


def _stack_ranks(contents: Contents, processes: Mapping[Process, int]) -> dict[Process, int]:
    """(node, pid) → rank for dumped stacks; if no rank is known, they are numbered in order."""
    by_pid = {pid: rank for (_, pid), rank in processes.items()}  # tool output rarely names its host
    known = {
        (node, dump.rank_pid): by_pid.get(dump.rank_pid) if rank is None else rank
        for node, rank, dump in contents.stacks
    }
    if not any(rank is not None for rank in known.values()):
        return {owner: number for number, owner in enumerate(sorted(known))}
    return {owner: rank for owner, rank in known.items() if rank is not None}
