"""Progress of each process on each communicator: NCCL's COLL lines, summarized block by block.

A communicator is identified by a process's pointer until an INIT line gives its commId. COLL lines are counted per
(host, pid, pointer), never by pointer alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Dict, Iterator, List, Match, NamedTuple, Optional, Set, Tuple

from collectors.node.logs import prefixes
from collectors.samples.logs import CommProgress

COUNT = b" opCount"
"""Text that every COLL line contains."""
VARYING = re.compile(rb" opCount [^s]{1,20}s[^v]{1,50}v[^y]{1,80}y[^m]{1,60}(?=mm 0x)")
"""The varying part of a communicator's COLL lines (count, buffers, number of elements), from ``opCount 5 sendbuff`` to
``root 0 co``. Runs that end at a single letter match fastest."""
_RECORD = (
    r"(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} .{0,40}?NCCL INFO (?P<op>\w+): opCount "
    r"(?P<count>[0-9a-f]{1,16}) .{0,120}?\bcount (?P<elements>\d{1,18}) datatype (?P<dtype>\d{1,4}) .{0,60}?"
    r"\bcomm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<size>\d{1,7})\](?:.{0,200}?\bglobalrank (?P<global_rank>\d{1,7}))?"
)
"""A collective of NCCL, or of RCCL, which adds the global rank."""
_INIT = (
    r"(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} .{0,200}?"
    r"comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks (?P<size>\d{1,7})"
    r"(?:.{0,400}?commId (?P<id>0x[0-9a-f]{1,40}))?.{0,400}?- (?P<what>Init START|Init COMPLETE|Abort|Destroy)"
)
_POINT_TO_POINT = ("Send", "Recv")
_DTYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8_e4m3",
    "float8_e5m2",
)  # fmt: skip

WAITING = 4096
"""Kinds of unread lines after which they are read."""
Key = Tuple[str, int, str]
"""host, pid, pointer."""


class _Comm(NamedTuple):
    """A communicator of one process according to INIT lines."""

    name: str
    rank: int
    size: int


class CommunicatorProgress:
    """The communicators of one log file."""

    def __init__(self, source: str, rank: Optional[int], now: float) -> None:
        self.source = source
        self.rank = rank
        self.now = now
        self.whole = True
        """False when lines were left out: line numbers are then unknown."""
        self._comms: Dict[Key, _Comm] = {}
        self._last: Dict[Key, CommProgress] = {}
        self._waiting: Dict[bytes, Tuple[int, int, bytes]] = {}
        """By kind (a line without its varying part): count of lines, number and bytes of the last."""

    def take(self, lines: List[bytes], kinds: List[bytes], first: int, launches: Set[bytes], inits: Set[bytes]) -> None:
        """Take the COLL and INIT lines of a block that begins with line ``first`` of the log.

        A line's kind is the line without its varying part. Of the COLL lines of one kind, only the last is parsed; the
        others are counted.
        """
        begin, named = 0, [index for index, kind in enumerate(kinds) if kind in inits] if inits else []
        for end in [*named, len(kinds)]:
            counts, backwards = Counter(kinds[begin:end]), kinds[begin:end][::-1]
            for kind in launches & counts.keys():
                index = end - 1 - backwards.index(kind)
                before = self._waiting.get(kind, (0, 0, b""))[0]
                self._waiting[kind] = (before + counts[kind], first + index, lines[index])
            if end < len(kinds):
                self.settle()
                self._initialised(lines[end])
            begin = end + 1
        if len(self._waiting) > WAITING:
            self.settle()

    def known(self) -> List[CommProgress]:
        """The last collective of every communicator."""
        self.settle()
        return [self._last[key] for key in sorted(self._last)]

    def ranks(self) -> Iterator[Tuple[str, int, int, int]]:
        """(host, pid, rank, size) of every communicator that an INIT line named."""
        for (host, pid, _), comm in self._comms.items():
            yield host, pid, comm.rank, comm.size

    def settle(self) -> None:
        """Parse the waiting lines, in the order of the log."""
        waiting, self._waiting = self._waiting, {}
        for launched, number, raw in sorted(waiting.values(), key=lambda kind: kind[1]):
            for line in prefixes.records(raw, number, self.now):
                match = re.search(_RECORD, line.text)
                if match is not None:
                    self._record(match, line, launched)

    def _record(self, match: "Match[str]", line: prefixes.LabelledLine, launched: int) -> None:
        host, op, pointer = match.group("host", "op", "comm")
        pid, dtype = int(match.group("pid")), int(match.group("dtype"))
        key = (host, pid, pointer)
        before, comm = self._last.get(key), self._comms.get(key)
        if before is not None and before.op not in _POINT_TO_POINT and op in _POINT_TO_POINT:
            return
        if before is not None and (before.op in _POINT_TO_POINT) == (op in _POINT_TO_POINT):
            launched += before.launched
        rank = match.group("global_rank") or (line.stream.rank if self.rank is None else self.rank)
        self._last[key] = CommProgress(
            comm=comm.name if comm is not None else "%s:%d:%s" % key,
            rank=comm.rank if comm is not None else -1,
            size=comm.size if comm is not None else int(match.group("size")),
            global_rank=None if rank is None else int(rank),
            host=host,
            pid=pid,
            op=op,
            elements=int(match.group("elements")),
            dtype=_DTYPES[dtype] if dtype < len(_DTYPES) else str(dtype),
            op_count=int(match.group("count"), 16),
            launched=launched,
            at=line.at,
            source=self.source,
            line=line.number if self.whole else 0,
        )

    def _initialised(self, raw: bytes) -> None:
        match = re.search(_INIT, raw[: prefixes.SEEN].decode("utf-8", "replace"))
        if match is None:
            return
        key = (match.group("host"), int(match.group("pid")), match.group("comm"))
        what, rank, size = match.group("what"), int(match.group("rank")), int(match.group("size"))
        known = self._comms.get(key)
        if what in ("Abort", "Destroy"):
            self._comms.pop(key, None)
        elif what == "Init START" or known is None or (known.rank, known.size) != (rank, size):
            self._comms[key] = _Comm(match.group("id") or "%s:%d:%s" % key, rank, size)
            self._last.pop(key, None)
