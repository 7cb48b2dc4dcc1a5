"""One rank's trace as a few figures: how long it computed, communicated, copied, loaded data and did nothing.

Where a trace has GPU activity the GPU's time counts: kernels that are not communication are compute, ``gpu_memcpy`` and
``gpu_memset`` are copies. Where it has none, operators on the CPU are compute and c10d's are communication. Every
figure is the length of a union of intervals: what runs at the same time on several streams or threads counts once.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from collectors.probes.trace.remote.collectives import ANNOTATION, KERNEL, described
from collectors.probes.trace.remote.reading import BadTrace, Read, TraceEvents, TraceFile
from collectors.samples.traces import RankTrace, TraceCall, TraceStep, TraceTotal

CALLS = 4_000
"""Collectives that are kept to be compared with those of other ranks: tens of steps of a sharded model."""
STEPS = 2_000
FRESH = 100_000
"""Intervals that wait before they are merged into the union."""
_LATEST = 1e17
"""Microseconds; nobody's clock shows more."""

_KERNELS = frozenset(("kernel", "Kernel", "concurrent_kernel"))
_COPIES = frozenset(("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"))
_OPERATORS = frozenset(("cpu_op", "Operator"))
_COUNTED = _KERNELS | _COPIES | _OPERATORS | {"user_annotation", "gpu_user_annotation"}
_STEP = re.compile(r"ProfilerStep#(\d{1,12})$")
_LOADING = re.compile(r"enumerate\(DataLoader\)#|^DataLoader\b|dataloader.{0,200}?(?:next|fetch)", re.IGNORECASE)
_RANK = re.compile(r"(?:^|[^a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)", re.IGNORECASE)
_END = re.compile(r"(?:^|[-_.])(\d{1,4})(?:\.pt\.trace|\.trace)?\.json(?:\.gz)?$")

COMPUTE, COPY, COLLECTIVE, OPERATOR, C10D, ASYNC, STEP, DATA = (
    "compute", "copy", "collective", "operator", "c10d", "async", "step", "data",
)  # fmt: skip

Span = Tuple[float, float]


class Union:
    """A union of intervals that come in any order."""

    def __init__(self) -> None:
        self._spans: List[Span] = []
        self._fresh: List[Span] = []

    def add(self, start: float, end: float) -> None:
        """Unite with one more interval."""
        self._fresh.append((start, end))
        if len(self._fresh) >= FRESH:
            self.spans()

    def spans(self) -> List[Span]:
        """The disjoint intervals in order."""
        if self._fresh:
            self._spans = merged([self._spans, self._fresh])
            self._fresh = []
        return self._spans


def merged(parts: Iterable[Iterable[Span]]) -> List[Span]:
    """Several lists of intervals as disjoint intervals in order."""
    found: List[Span] = []
    for start, end in sorted(chain.from_iterable(parts)):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def length(*parts: Iterable[Span]) -> float:
    """Length of the union of several lists of intervals."""
    return sum(end - start for start, end in merged(parts))


def without(kept: List[Span], taken: List[Span]) -> List[Span]:
    """The parts of disjoint intervals that lie in no interval of ``taken``, which are disjoint too."""
    left: List[Span] = []
    first = 0
    for begin, end in kept:
        start = begin
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        hole = first
        while hole < len(taken) and taken[hole][0] < end:
            if taken[hole][0] > start:
                left.append((start, taken[hole][0]))
            start = max(start, taken[hole][1])
            hole += 1
        if start < end:
            left.append((start, end))
    return left


class Reduction:
    """Takes events, in any order, and tells a :class:`RankTrace`."""

    def __init__(self) -> None:
        self._unions: Dict[str, Union] = {}
        self._kinds: Dict[Tuple[str, str], str] = {}
        self._steps: Dict[int, Span] = {}
        self._calls: Dict[str, List[TraceCall]] = {COLLECTIVE: [], ASYNC: []}
        self._totals: Dict[str, Dict[Tuple[str, str], TraceTotal]] = {COLLECTIVE: {}, ASYNC: {}}
        self._first, self._last = float("inf"), float("-inf")
        self.events = 0
        """Events that counted."""

    def take(self, event: Any) -> None:
        """One event; what has not the types of a complete one (phase X) is left out."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        category, name, at, duration = map(event.get, ("cat", "name", "ts", "dur"))
        if not isinstance(category, str) or category not in _COUNTED or not isinstance(name, str):
            return
        if not (_number(at) and _number(duration)) or not (-_LATEST < at < _LATEST and 0 <= duration < _LATEST):  # type: ignore[operator]
            return
        kind = self._kinds.get((category, name))
        if kind is None:
            kind = self._kinds[category, name] = _kind(category, name)
        if kind:
            self._add(kind, name, at * 1e-6, (at + duration) * 1e-6, event.get("args"))  # type: ignore[operator]

    def _add(self, kind: str, name: str, start: float, end: float, args: object) -> None:
        self.events += 1
        self._first, self._last = min(self._first, start), max(self._last, end)
        if kind == STEP:
            number = int(name.rpartition("#")[2])
            known = self._steps.get(number, (start, end))
            if number in self._steps or len(self._steps) < STEPS:
                self._steps[number] = (min(start, known[0]), max(end, known[1]))
            return
        self._unions.setdefault(kind, Union()).add(start, end)
        if kind in self._calls:
            told = described(name, args if isinstance(args, dict) else {})
            self._calls[kind].append(TraceCall(told.op, told.group, start, end - start, told.size, told.seq))
            before = self._totals[kind].get((told.op, told.group))
            self._totals[kind][told.op, told.group] = TraceTotal(
                told.op, told.group, told.ranks, told.group_size, 1 + (before.calls if before else 0),
                end - start + (before.seconds if before else 0.0), max(end - start, before.worst if before else 0.0),
                (told.size or 0) + (before.size or 0 if before else 0) or None,
            )  # fmt: skip
            if len(self._calls[kind]) > 4 * CALLS:
                self._calls[kind] = sorted(self._calls[kind], key=_start)[:CALLS]

    def result(self, about: Mapping[str, Any], path: str, size: int, damaged: int, why: str) -> RankTrace:
        """The figures. ``about`` is what the document says of itself, ``why`` why it was not read to its end."""
        of: Dict[str, List[Span]] = {kind: [] for kind in (COMPUTE, COPY, COLLECTIVE, OPERATOR, C10D, ASYNC, DATA)}
        of.update((kind, union.spans()) for kind, union in self._unions.items())
        gpu = bool(of[COMPUTE] or of[COLLECTIVE] or of[COPY])
        # On a CPU the operators of a data loader are no compute: on a GPU they would not be seen either.
        compute = of[COMPUTE] if gpu else without(of[OPERATOR], of[DATA])
        talks = of[COLLECTIVE] if gpu else merged([of[ASYNC], of[C10D]])
        kind = COLLECTIVE if gpu else ASYNC
        wall = max(0.0, self._last - self._first) if self.events else 0.0
        computed, busy = length(compute), length(compute, talks, of[COPY])
        told = about.get("distributedInfo")
        known: Mapping[str, Any] = told if isinstance(told, dict) else {}
        base = about.get("baseTimeNanoseconds")
        began = self._first + (base / 1e9 if type(base) is int and abs(base) < 1 << 63 else 0.0)
        calls = sorted(self._calls[kind], key=_start)
        rank = _small(known.get("rank"))
        return RankTrace(
            node="", path=path, size=size, rank=_rank_of(path) if rank is None else rank,
            world_size=_small(known.get("world_size")), device="gpu" if gpu else "cpu", events=self.events,
            damaged=damaged, why=why, began=round(began, 9) if self.events and began > 1e8 else None,
            wall=round(wall, 9), compute=round(computed, 9), communication=round(length(talks), 9),
            exposed=round(length(compute, talks) - computed, 9), memcpy=round(length(of[COPY]), 9),
            idle=round(max(0.0, wall - busy), 9),
            data=round(length(compute, talks, of[COPY], of[DATA]) - busy, 9),
            steps=[TraceStep(number, round(start - self._first, 9), round(end - start, 9))
                   for number, (start, end) in sorted(self._steps.items())],
            totals=sorted(self._totals[kind].values(), key=lambda total: -total.seconds),
            calls=[call._replace(start=round(call.start - self._first, 9), seconds=round(call.seconds, 9))
                   for call in calls[:CALLS]],
        )  # fmt: skip


def reduced(read: Read, path: str, size: int) -> RankTrace:
    """The figures of a stream. Raises :class:`BadTrace`."""
    events, reduction = TraceEvents(read), Reduction()
    for event in events:
        reduction.take(event)
    return reduction.result(events.about, path, size, events.damaged, "" if events.whole else CUT)


CUT = "it ends before its last event"


def of_file(path: str, advance: Callable[[int], None] = lambda _: None) -> RankTrace:
    """The figures of one file, or why there are none.

    ``advance`` is told how many bytes were read.
    """
    try:
        with TraceFile(path) as file:

            def read(count: int) -> bytes:
                data = file.read(count)
                advance(len(data))
                return data

            try:
                trace = reduced(read, path, file.size)
            except BadTrace as error:
                return unread(path, "%s%s" % (error, ": " + file.damage if file.damage else ""))
            return trace._replace(why=file.damage or trace.why)
    except IsADirectoryError:
        return unread(path, "there is no trace in this folder")
    except OSError as error:
        return unread(path, error.strerror or str(error))


def unread(path: str, why: str) -> RankTrace:
    """Instead of a trace that cannot be read."""
    return Reduction().result({}, path, 0, 0, why)


def _kind(category: str, name: str) -> str:
    if category in _KERNELS:
        return COLLECTIVE if KERNEL.search(name) else COMPUTE
    if category in _COPIES:
        return COPY
    if _STEP.match(name):
        return STEP
    if category == "gpu_user_annotation":
        return ""
    if ANNOTATION.match(name):
        return ASYNC
    if category in _OPERATORS and (name.startswith("c10d::") or name == "record_param_comms"):
        return C10D
    if _LOADING.search(name):
        return DATA
    return OPERATOR if category in _OPERATORS else ""


def _start(call: TraceCall) -> float:
    return call.start


def _number(value: object) -> bool:
    # a whole number that no float can hold would raise
    return isinstance(value, float) or (type(value) is int and -(1 << 63) < value < 1 << 63)


def _small(value: object) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def _rank_of(path: str) -> Optional[int]:
    """The rank that a file's name tells."""
    name = path.rsplit("/", 1)[-1]
    match = _RANK.search(name) or _END.search(name)
    return int(match.group(1)) if match else None
