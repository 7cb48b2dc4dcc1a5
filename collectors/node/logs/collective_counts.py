"""How far each process got on each communicator: NCCL's COLL lines, summarised by whole chunks.

A communicator is a process's pointer until an INIT line names its commId; COLL lines are counted per (host, pid,
pointer), never joined by pointer alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Dict, Iterator, List, Match, NamedTuple, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs import prefixes
from collectors.node.logs.nccl_coll_filter import COUNT, MARK, Sifted, last
from collectors.samples.logs import CommProgress

_RECORD = re.compile(
    r"(?:(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} (?:\[\d{1,9}\] )?(?:\d{1,9}"
    r" )?)?(?:\[(?P<device>\d{1,9})\] )?NCCL INFO (?:COLL )?(?P<op>\w+):?"
    r" opCount[ :=](?P<count>[0-9a-f]+)"
    r"(?P<rest>.*)"
)
_COMM = re.compile(r".*\bcomm (0x[0-9a-f]+)")
_ELEMENTS = re.compile(r"\bcount (\d{1,18})")
_DATATYPE = re.compile(r"\bdatatype (\d{1,9})")
_RANKS = re.compile(r"\[nranks=(\d{1,7})\]")
_GLOBAL = re.compile(r"\bglobalrank (\d{1,7})")
_DONE = re.compile(r"\b(?:DONE|COMPLETED?|FINISHED)\b")
_NODE = re.compile(r"(?:[Rr]ank|Node|Worker)[ _:=]?(\d{1,7})\b")
_INIT = re.compile(
    rb"comm 0x[0-9a-f]{1,16} rank \d{1,9} nranks \d{1,9}[^\n]{0,600}?"
    rb"(?:Init (?:START|COMPLETE)|(?:Abort|Destroy) COMPLETE)"
)
_INIT_FIELDS = re.compile(
    r"(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} .{0,200}?"
    r"comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks (?P<size>\d{1,7})(?P<rest>.{0,400}?)"
    r"- (?P<what>Init START|Init COMPLETE|Abort|Destroy)"
)
_PARENT = re.compile(r" parent (0x[0-9a-f]{1,16})")
_COLOR = re.compile(r" color (-?\d{1,10})")
_COMM_ID = re.compile(r"commId (0x[0-9a-f]{1,40})")
WAITING = 2048
"""Kinds of lines that wait to be read; there are more only where each line has a time in front."""
_POINT_TO_POINT = ("Send", "Recv")
_DTYPES = (
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8_e4m3",
    "float8_e5m2",
)

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
        """By kind of line: how many there were, number and bytes of the last. Read only when somebody asks."""
        self._born: Dict[Tuple[str, int], Counter] = {}  # type: ignore[type-arg]

    def take(self, sifted: Sifted, number: Callable[[int], int]) -> None:
        """Take the COLL and INIT lines of a sifted block; ``number`` gives the number of its n-th line."""
        if not sifted.odd:
            self._launched(sifted, 0, sifted.keys, sifted.counts, number)
            return
        at = 0
        for odd in [*sifted.odd, len(sifted.keys)]:
            part = sifted.keys[at:odd]
            self._launched(sifted, at, part, Counter(part), number)
            if odd < len(sifted.keys):
                self.take_line(sifted.raw[odd], number(odd))
            at = odd + 1

    def take_line(self, raw: bytes, number: int) -> None:
        """Take one line, whatever it is: the slow way, for lines into which several processes wrote."""
        if MARK not in raw:
            return
        if COUNT in raw:
            self._settle()
            self._one(raw, number, 1)
        if _INIT.search(raw):
            self._initialised(raw)

    def known(self) -> List[CommProgress]:
        """The last collective of every communicator."""
        self._settle()
        return [self._last[key] for key in sorted(self._last)]

    def ranks(self) -> Iterator[Tuple[str, int, int, int]]:
        """(host, pid, rank, size) of every communicator that an INIT line named."""
        for (host, pid, _), comm in self._comms.items():
            yield host, pid, comm.rank, comm.size

    def _launched(
        self, sifted: Sifted, start: int, keys: List[bytes], counts: Dict[bytes, int], number: Callable[[int], int]
    ) -> None:
        """Count the collectives of a part of a block that begins at a line of it."""
        for key, index in last(keys, sifted.collectives & counts.keys()).items():
            before = self._waiting.get(key)
            seen = counts[key] if before is None else counts[key] + before[0]
            self._waiting[key] = (seen, number(start + index), sifted.raw[start + index])
        if len(self._waiting) > WAITING:
            self._settle()

    def _settle(self) -> None:
        """Read the lines that wait, in the order in which they stand in the log."""
        waiting, self._waiting = self._waiting, {}
        for launched, at, raw in sorted(waiting.values(), key=_place):
            self._one(raw, at, launched)

    def _one(self, raw: bytes, number: int, launched: int) -> None:
        for line in prefixes.records(raw, number, self.now):
            match = _RECORD.search(line.text)
            if match is not None:
                self._record(match, line, launched)

    def _record(self, match: "Match[str]", line: prefixes.Line, launched: int) -> None:
        rest = match.group("rest")
        pointer = _COMM.match(rest)
        host, pid = match.group("host") or line.stream.host, int(match.group("pid") or 0)
        rank = self.rank if self.rank is not None else line.stream.rank
        if pointer is None and not match.group("pid"):
            labelled = _NODE.search(line.text[: match.start()])
            rank = int(labelled.group(1)) if labelled is not None else rank
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
        ranks, elements, dtype, known = (p.search(rest) for p in (_RANKS, _ELEMENTS, _DATATYPE, _GLOBAL))
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
        self._settle()
        match = _INIT_FIELDS.search(raw[: prefixes.SEEN].decode("utf-8", "replace"))
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
        self._comms[key] = _Comm(self._name(match, key, size), rank, size)
        self._last.pop(key, None)

    def _name(self, match: "Match[str]", key: Key, size: int) -> str:
        """commId; where the version prints none, what all its ranks count alike: n-th split, or n-th of a size."""
        parent, color, commid = (pattern.search(match.group("rest")) for pattern in (_PARENT, _COLOR, _COMM_ID))
        if commid is not None:
            return commid.group(1)
        host, pid, _ = key
        born = self._born.setdefault((host, pid), Counter())
        if parent is not None:
            of = self._comms.get((host, pid, parent.group(1)))
            if of is None:
                return "%s:%d:%s" % key
            born[of.name] += 1
            return "%s/%d:%s" % (of.name, born[of.name], color.group(1) if color is not None else "0")
        born[str(size)] += 1
        return "nranks%d#%d" % (size, born[str(size)])


def _place(waiting: Tuple[int, int, bytes]) -> int:
    return waiting[1]


def _dtype(text: str) -> str:
    index = int(text[:4])
    return _DTYPES[index] if index < len(_DTYPES) else text
