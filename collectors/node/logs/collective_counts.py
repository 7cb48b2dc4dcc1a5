"""How far each process got on each communicator: NCCL's COLL lines, summed up block by block.

A communicator is a process's pointer until an INIT line names its commId; COLL lines are counted per (host, pid,
pointer), never joined by pointer alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Callable, Dict, Iterator, List, Match, NamedTuple, Optional, Tuple

from collectors.node.logs import prefixes
from collectors.samples.logs import CommProgress

COUNT, RANKS = b" opCount", b" nranks "
"""What COLL lines and INIT lines have."""
_INFO = b"NCCL INFO "
_VARYING = re.compile(
    rb" opCount [0-9a-f][^ ]* sendbuff [^ ]+ recvbuff [^ ]+ count [^ ]+ datatype [^ ]+ op [^ ]+ root [^ ]+(?= comm 0x)"
)
"""What differs from one collective of a communicator to the next: equal lines are counted by the block (runs
up to one byte cost least)."""
_RECORD = re.compile(
    r"(?:(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} (?:\[\d{1,9}\] )?(?:\d{1,9} )?)?"
    r"(?:\[\d{1,9}\] )?NCCL INFO (?:COLL )?(?P<op>\w+):? opCount[ :=](?P<count>[0-9a-f]+)(?P<rest>.*)"
)
_COMM = re.compile(r".*\bcomm (0x[0-9a-f]+)")
_ELEMENTS = re.compile(r"\bcount (\d{1,18})")
_DATATYPE = re.compile(r"\bdatatype (\d{1,4})")
_SIZE = re.compile(r"\[nranks=(\d{1,7})\]")
_GLOBAL = re.compile(r"\bglobalrank (\d{1,7})")
_DONE = re.compile(r"\b(?:DONE|COMPLETED?|FINISHED)\b")
_INIT = re.compile(
    r"(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} .{0,200}?"
    r"comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks (?P<size>\d{1,7})(?P<rest>.{0,400}?)"
    r"- (?P<what>Init START|Init COMPLETE|Abort|Destroy)"
)
_COMM_ID = re.compile(r"commId (0x[0-9a-f]{1,40})")
_POINT_TO_POINT = ("Send", "Recv")
_DTYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8_e4m3",
    "float8_e5m2",
)  # fmt: skip

WAITING = 4096
"""Lines that wait to be read, at the most."""
Key = Tuple[str, int, str]
"""host, pid, pointer."""


class _Comm(NamedTuple):
    """What INIT lines said about a communicator of one process."""

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
        """False when lines were left out: counts of lines then say nothing across ranks."""
        self._comms: Dict[Key, _Comm] = {}
        self._last: Dict[Key, CommProgress] = {}
        self._waiting: Dict[bytes, Tuple[int, int, bytes]] = {}
        """By the line without what varies: how many there were, number and bytes of the last."""

    def take(self, text: bytes, number: Callable[[int], int]) -> bytes:
        """Take the COLL and INIT lines of a block; ``number`` gives the number of the line that begins at an offset.

        Of lines that differ in the count and the buffers alone the last one is read, and the others are counted.
        Gives the block back with zeros for each COLL line: nothing else is read in these.
        """
        lines, keys = text.split(b"\n"), _VARYING.sub(COUNT, text).split(b"\n")
        if len(keys) != len(lines):  # it ran over the end of a torn line
            keys = lines
        places = _Places(lines, number)
        every = Counter(keys)
        taken = {key for key in every if COUNT in key and _INFO in key}
        began = any(RANKS in key for key in every)
        begin = 0
        for end in [*(index for index, key in enumerate(keys) if began and RANKS in key), len(keys)]:
            part = keys[begin:end] if began else keys
            counts = Counter(part) if began else every
            last = dict(zip(part, range(begin, end)))
            for index, key in sorted((last[key], key) for key in taken & last.keys()):
                before = self._waiting.get(key, (0, 0, b""))[0]
                self._waiting[key] = (before + counts[key], places.number(index), lines[index])
            if end < len(keys):
                self.settle()
                self._initialised(lines[end])
            begin = end + 1
        if len(self._waiting) > WAITING:
            self.settle()
        if len(taken) + 1 == len(every):  # and the empty one behind the last line's end
            return bytes(len(text))
        return b"\n".join([bytes(len(line)) if key in taken else line for key, line in zip(keys, lines)])

    def known(self) -> List[CommProgress]:
        """The last collective of every communicator."""
        self.settle()
        return [self._last[key] for key in sorted(self._last)]

    def ranks(self) -> Iterator[Tuple[str, int, int, int]]:
        """(host, pid, rank, size) of every communicator that an INIT line named."""
        for (host, pid, _), comm in self._comms.items():
            yield host, pid, comm.rank, comm.size

    def settle(self) -> None:
        """Read the lines that wait, in the order in which they stand in the log; the same line is counted unread."""
        waiting, self._waiting = self._waiting, {}
        for launched, number, raw in sorted(waiting.values(), key=lambda one: one[1]):
            for line in prefixes.records(raw, number, self.now):
                match = _RECORD.search(line.text)
                if match is not None:
                    self._record(match, line, launched)

    def _record(self, match: "Match[str]", line: prefixes.Line, launched: int) -> None:
        rest = match.group("rest")
        pointer = _COMM.match(rest)
        host, pid = match.group("host") or line.stream.host, int(match.group("pid") or 0)
        rank = self.rank if self.rank is not None else line.stream.rank
        key = (host, pid, pointer.group(1) if pointer is not None else "" if rank is None else "rank%d" % rank)
        op, done = match.group("op"), bool(_DONE.search(rest, pointer.end() if pointer is not None else 0))
        before = self._last.get(key)
        if op in _POINT_TO_POINT and before is not None and before.op not in _POINT_TO_POINT:
            return
        counted = 0 if done else launched
        if before is not None and (before.op not in _POINT_TO_POINT or op in _POINT_TO_POINT):
            counted += before.launched
        self._last[key] = self._progress(key, op, rest, match.group("count"), rank, line, counted)

    def _progress(
        self, key: Key, op: str, rest: str, printed: str, rank: Optional[int], line: prefixes.Line, launched: int
    ) -> CommProgress:
        comm = self._comms.get(key)
        ranks, elements, dtype, known = (p.search(rest) for p in (_SIZE, _ELEMENTS, _DATATYPE, _GLOBAL))
        size = comm.size if comm is not None else int(ranks.group(1)) if ranks is not None else 0
        host, pid, _ = key
        if known is not None:
            rank = int(known.group(1))
        inside = comm.rank if comm is not None else rank if rank is not None and not pid else -1
        name = comm.name if comm is not None else "%s:%d:%s" % key if pid else ""
        decimal = "buff" not in rest and printed.isdigit()
        return CommProgress(
            comm=name,
            rank=inside,
            size=size,
            global_rank=rank,
            host=host,
            pid=pid,
            op=op,
            elements=int(elements.group(1)) if elements is not None else 0,
            dtype=_dtype(dtype.group(1)) if dtype is not None else "",
            op_count=int(printed[:16], 10 if decimal else 16),
            launched=launched,
            at=line.at,
            source=self.source,
            line=line.number if self.whole else 0,
            whole=self.whole,
        )

    def _initialised(self, raw: bytes) -> None:
        match = _INIT.search(raw[: prefixes.SEEN].decode("utf-8", "replace"))
        if match is None:
            return
        host, pid, pointer = match.group("host"), int(match.group("pid")), match.group("comm")
        key = (host, pid, pointer)
        what = match.group("what")
        if what in ("Abort", "Destroy"):
            self._comms.pop(key, None)
            return
        rank, size = int(match.group("rank")), int(match.group("size"))
        known = self._comms.get(key)
        if what == "Init COMPLETE" and known is not None and (known.rank, known.size) == (rank, size):
            return
        named = _COMM_ID.search(match.group("rest"))
        self._comms[key] = _Comm("%s:%d:%s" % key if named is None else named.group(1), rank, size)
        self._last.pop(key, None)


class _Places:
    """Numbers of lines by their places in a block, asked for in ascending order."""

    def __init__(self, lines: List[bytes], number: Callable[[int], int]) -> None:
        self._lines = lines
        self._number = number
        self._index = self._offset = 0

    def number(self, index: int) -> int:
        """Number of the n-th line."""
        self._offset += sum(map(len, self._lines[self._index : index])) + index - self._index
        self._index = index
        return self._number(self._offset)


def _dtype(text: str) -> str:
    index = int(text)
    return _DTYPES[index] if index < len(_DTYPES) else text
