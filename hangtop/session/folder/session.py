"""A folder of logs, dumps and tool outputs as an ordinary session, after the fact: nothing moves in it any more."""

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
"""Bytes of memory for the events of all files: nothing comes later for which room must be kept."""
LARGEST_OUTPUT = 8 << 20
"""Bytes of the beginning of a text that are read as what a tool printed: hundreds of its answers."""


def read(paths: Sequence[Path], say: Callable[[str], None]) -> Contents:
    """Everything under the paths; ``say`` is told what is read."""
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
            told = file.take(member, contents)
        except BadFormat as error:
            return Recognised(member.name, "", member.size, why=f"looks like a {file.kind}: {clean(str(error))[:300]}")
        return Recognised(member.name, file.kind, member.size, 0, told, member.damage)
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
    told = found + len(log.events) - 1 + len(log.progress)  # that a log ends is said of each
    return Recognised(member.name, kind, member.size, lines, told, member.damage)


def _keeping(chunks: Iterable[bytes], begin: bytearray) -> Iterator[bytes]:
    """The chunks, the first of which are also kept for whoever reads a tool's output in them."""
    for chunk in chunks:
        if len(begin) < LARGEST_OUTPUT:
            begin += chunk
        yield chunk


class FilesSession(Session):
    """A session over what files say, delivered as the nodes would have sent it; ``files`` are those that were read."""

    def __init__(self, contents: Contents, now: float | None = None) -> None:
        self._at = self._read_at = time.time() if now is None else now
        super().__init__(SessionOptions(read_only=True), clock=lambda: self._at)
        self.files = contents.files
        self._written = min(contents.newest or self._read_at, self._read_at)
        """When the last of the files was written: what has no time of its own was said before that."""
        self._deliver(contents)
        self.state.started = self._written

    @property
    def live(self) -> bool:
        """Silence means nothing in files."""
        return False

    def _deliver(self, contents: Contents) -> None:
        state = self.state
        state.events = Kept(EVENT_BYTES)
        processes = ranks_of_processes(contents)
        contents.events = joined(contents.events, processes)
        size = world_size(contents)
        homes = {rank: process for process, rank in processes.items() if process[0]}
        for rank, (host, pid) in sorted(homes.items()):  # of several processes of a rank the last one counts
            self.samples(host, [_process(rank, pid, size)])
        for host, told in groupby(contents.events, key=lambda event: event.host):
            self.samples(host, list(told))
        for progress in same_communicators(contents.progress, processes):
            self.samples(progress.host, [progress])
        for node, _, dump in sorted(contents.stacks, key=lambda entry: (entry[0], entry[2].pid, entry[2].at)):
            self.stacks(node, [dump])
        for recorder in contents.recorders:
            self.take_report(recorder)
        for report in sorted(contents.ras, key=lambda report: report.at):
            self._at = report.at
            self.take_report(report)
        self._at = self._read_at
        for node in state.nodes:
            self.link(LinkChange(node, "offline", "read from files", self._written))
        self._size = size
        self._stack_ranks = _stack_ranks(contents, processes)
        self.traces = picture(contents.traces) if contents.traces else None

    def job_of(self, snapshot: Job) -> Job:
        """Make the job of a snapshot, with what the files tell of it as a whole, and without the node of no name."""
        job = super().job_of(snapshot)
        return replace(
            job,
            watched=0.0,
            nodes={name: node for name, node in job.nodes.items() if name},
            world_size=job.world_size or self._size,
            stack_ranks=self._stack_ranks,
            traces=self.traces,
        )


def files_session(
    paths: Sequence[Path], say: Callable[[str], None] = lambda _: None, *, now: float | None = None
) -> FilesSession:
    """Read everything under the paths; ``now`` is the present moment, unless given."""
    return FilesSession(read(paths, say), now)


def _process(rank: int, pid: int, size: int | None) -> RankProcess:
    """A rank's process of which nothing but its number is known."""
    unknown = dict.fromkeys(RankProcess._fields)
    words = ("master_addr", "command", "cwd", "container", "user", "stdout", "stderr", "nccl_log")
    known: dict[str, object] = {"pid": pid, "started": 0.0, "rank": rank, "world_size": size, "parent": 0, "uid": -1}
    known |= {"env": {}, "versions": {}, **dict.fromkeys((*words, "launcher", "run_id"), "")}
    return RankProcess(**{**unknown, **known, **RankProcess._field_defaults})


def _stack_ranks(contents: Contents, processes: Mapping[Process, int]) -> dict[Process, int]:
    """Ranks whose stacks were dumped, by node and pid; where nothing says which is which they are counted."""
    by_pid = {pid: rank for (_, pid), rank in processes.items()}  # what a tool printed seldom names its host
    known = {
        (node, dump.rank_pid): by_pid.get(dump.rank_pid) if rank is None else rank
        for node, rank, dump in contents.stacks
    }
    if not any(rank is not None for rank in known.values()):
        return {owner: number for number, owner in enumerate(sorted(known))}
    return {owner: rank for owner, rank in known.items() if rank is not None}
