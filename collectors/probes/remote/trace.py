"""One rank's profiler trace as a few figures, and the program that reads the traces that lie on a node.

Where a trace has GPU activity the GPU's time counts: kernels that are not communication are compute, ``gpu_memcpy`` and
``gpu_memset`` are copies. Where it has none, operators on the CPU are compute and c10d's are communication. Every
figure is the length of a union of intervals: what runs at the same time on several streams or threads counts once.
"""

from __future__ import annotations

import glob
import os
import re
from itertools import chain
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from collectors.node import watchdog
from collectors.node.say import say
from collectors.probes.remote.trace_events import (
    ANNOTATION,
    KERNEL,
    BadTrace,
    Read,
    TraceEvents,
    TraceFile,
    described,
    looks_like,
)
from collectors.samples.traces import RankTrace, TraceCall, TraceStep, TraceTotal

CALLS = 4_000
"""Collectives that are kept to be compared with those of other ranks: tens of steps of a sharded model."""
STEPS = 2_000
FRESH = 100_000
"""Intervals that wait before they are merged into the union."""
NICENESS = 9
"""Added while traces are read: that takes seconds of a core, which anybody else may have before."""
FILES, HEAD = 4_096, 1 << 13
"""Files of one search; bytes by which a trace is told: Kineto names its schema and devices at once."""
_LATEST = 1e17
"""Microseconds; nobody's clock shows more."""

_KERNELS = frozenset(("kernel", "Kernel", "concurrent_kernel"))
_COPIES = frozenset(("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"))
_COUNTED = _KERNELS | _COPIES | {"cpu_op", "user_annotation"}
_STEP = re.compile(r"ProfilerStep#(\d{1,12})$")
_LOADING = re.compile(r"enumerate\(DataLoader\)#|^DataLoader\b|dataloader.{0,200}?(?:next|fetch)", re.IGNORECASE)
_RANK = re.compile(r"(?:^|[^a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)", re.IGNORECASE)

COMPUTE, COPY, COLLECTIVE, OPERATOR, C10D, ASYNC, STEP, DATA = (
    "compute", "copy", "collective", "operator", "c10d", "async", "step", "data",
)  # fmt: skip
CUT = "it ends before its last event"

Span = Tuple[float, float]


def merged(*parts: Iterable[Span]) -> List[Span]:
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
    return sum(end - start for start, end in merged(*parts))


class Reduction:
    """Takes events, in any order, and tells a :class:`RankTrace`."""

    def __init__(self) -> None:
        self._spans: Dict[str, List[Span]] = {}
        self._fresh: Dict[str, List[Span]] = {}
        self._kinds: Dict[Tuple[str, str], str] = {}
        self._steps: Dict[int, Span] = {}
        self._calls: Dict[str, List[TraceCall]] = {COLLECTIVE: [], ASYNC: []}
        self._totals: Dict[str, Dict[Tuple[str, str], TraceTotal]] = {COLLECTIVE: {}, ASYNC: {}}
        self._first, self._last = float("inf"), float("-inf")
        self._events = 0

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
        self._events += 1
        self._first, self._last = min(self._first, start), max(self._last, end)
        if kind == STEP:
            number = int(name.rpartition("#")[2])
            known = self._steps.get(number, (start, end))
            if number in self._steps or len(self._steps) < STEPS:
                self._steps[number] = (min(start, known[0]), max(end, known[1]))
            return
        fresh = self._fresh.setdefault(kind, [])
        fresh.append((start, end))
        if len(fresh) >= FRESH:
            self._union(kind)
        if kind in self._calls:
            call = described(name, args if isinstance(args, dict) else {})
            calls, totals = self._calls[kind], self._totals[kind]
            calls.append(TraceCall(call.op, call.group, start, end - start, call.size, call.seq))
            nothing = TraceTotal(call.op, call.group, call.ranks, call.group_size, 0, 0.0, 0.0, None)
            before = totals.get((call.op, call.group), nothing)
            totals[call.op, call.group] = before._replace(
                calls=before.calls + 1, seconds=before.seconds + end - start, worst=max(before.worst, end - start),
                size=(call.size or 0) + (before.size or 0) or None,
            )  # fmt: skip
            if len(calls) > 4 * CALLS:
                self._calls[kind] = sorted(calls, key=lambda call: call.start)[:CALLS]

    def _union(self, kind: str) -> List[Span]:
        """All intervals of a kind as disjoint ones in order."""
        self._spans[kind] = merged(self._spans.get(kind, []), self._fresh.pop(kind, []))
        return self._spans[kind]

    def result(self, about: Mapping[str, Any], path: str, size: int, why: str) -> RankTrace:
        """The figures. ``about`` is what the document says of itself, ``why`` why it was not read to its end."""
        of = {kind: self._union(kind) for kind in (COMPUTE, COPY, COLLECTIVE, OPERATOR, C10D, ASYNC, DATA)}
        gpu = bool(of[COMPUTE] or of[COLLECTIVE] or of[COPY])
        talks = of[COLLECTIVE] if gpu else merged(of[ASYNC], of[C10D])
        kind = COLLECTIVE if gpu else ASYNC
        wall = max(0.0, self._last - self._first) if self._events else 0.0

        def computed(*others: List[Span]) -> float:
            """Length of the union of compute and these: on a CPU the operators of a data loader are no compute."""
            if gpu:
                return length(of[COMPUTE], *others)
            return length(of[OPERATOR], of[DATA], *others) - length(of[DATA], *others) + length(*others)

        busy = computed(talks, of[COPY])
        told, base = about.get("distributedInfo"), about.get("baseTimeNanoseconds")
        known: Mapping[str, Any] = told if isinstance(told, dict) else {}
        began = self._first + (base / 1e9 if type(base) is int and abs(base) < 1 << 63 else 0.0)
        named = _RANK.search(path.rsplit("/", 1)[-1])
        rank = _small(known.get("rank"))
        return RankTrace(
            node="", path=path, size=size, rank=int(named.group(1)) if rank is None and named else rank,
            world_size=_small(known.get("world_size")), device="gpu" if gpu else "cpu", events=self._events, why=why,
            began=round(began, 9) if self._events and began > 1e8 else None,
            wall=round(wall, 9), compute=round(computed(), 9), communication=round(length(talks), 9),
            exposed=round(computed(talks) - computed(), 9), memcpy=round(length(of[COPY]), 9),
            idle=round(max(0.0, wall - busy), 9),
            data=round(computed(talks, of[COPY], of[DATA]) - busy, 9),
            steps=[TraceStep(number, round(start - self._first, 9), round(end - start, 9))
                   for number, (start, end) in sorted(self._steps.items())],
            totals=sorted(self._totals[kind].values(), key=lambda total: -total.seconds),
            calls=[call._replace(start=round(call.start - self._first, 9), seconds=round(call.seconds, 9))
                   for call in sorted(self._calls[kind], key=lambda call: call.start)[:CALLS]],
        )  # fmt: skip


def _kind(category: str, name: str) -> str:
    if category in _KERNELS:
        return COLLECTIVE if KERNEL.search(name) else COMPUTE
    if category in _COPIES:
        return COPY
    if _STEP.match(name):
        return STEP
    if ANNOTATION.match(name):
        return ASYNC
    if category == "cpu_op" and (name.startswith("c10d::") or name == "record_param_comms"):
        return C10D
    if _LOADING.search(name):
        return DATA
    return OPERATOR if category == "cpu_op" else ""


def _number(value: object) -> bool:
    # a whole number that no float can hold would raise
    return isinstance(value, float) or (type(value) is int and -(1 << 63) < value < 1 << 63)


def _small(value: object) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def reduced(read: Read, path: str, size: int) -> RankTrace:
    """The figures of a stream. Raises :class:`BadTrace`."""
    events, reduction = TraceEvents(read), Reduction()
    for event in events:
        reduction.take(event)
    return reduction.result(events.about, path, size, "" if events.whole else CUT)


def unread(path: str, why: str) -> RankTrace:
    """Instead of a trace that cannot be read."""
    return Reduction().result({}, path, 0, why)


def of_file(path: str, advance: Callable[[int], None] = lambda _: None) -> RankTrace:
    """The figures of one file, or why there are none. ``advance`` is told how many bytes were read."""
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


# --- the program -------------------------------------------------------------------------------------------------


class ListedTrace(NamedTuple):
    """One file; ``done`` ends the list. The same one on shared storage has the same three on every node."""

    path: str
    size: int
    """-1 for one that cannot be looked at."""
    modified: int
    """Nanoseconds since the epoch."""
    done: bool = False


def find(patterns: Iterable[str]) -> List[str]:
    """Files that paths, folders and globs name, each once. A path that is given as it is comes whatever it holds.

    Of folders and globs only files count that look like traces. What names none comes as it is: reading it says why.
    """
    found: List[str] = []
    for pattern in patterns:
        path = os.path.expanduser(pattern)
        if not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path)):
            found.append(path)
            continue
        below: List[str] = []
        for named in [path] if os.path.isdir(path) else sorted(glob.glob(path)):
            below += [named] if os.path.isfile(named) else []
            for folder, _, names in os.walk(named):
                below += [os.path.join(folder, name) for name in sorted(names) if name.endswith((".json", ".json.gz"))]
                if len(below) > FILES:
                    break
        found += [one for one in below if may_be_trace(one)] or [path]
    return list(dict.fromkeys(found))[:FILES]


def may_be_trace(path: str) -> bool:
    """Whether a file begins like a trace. One that cannot be read may be one: reading it says why not."""
    try:
        with TraceFile(path) as file:
            return looks_like(file.read(HEAD)) or bool(file.damage)
    except OSError:
        return True


def _listed(path: str) -> ListedTrace:
    try:
        status = os.stat(path)
    except OSError:
        return ListedTrace(path, -1, 0)
    return ListedTrace(path, status.st_size, status.st_mtime_ns)


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``patterns``: list the files that they name; ``paths``: read these."""
    patterns, paths = arguments.get("patterns"), arguments.get("paths")
    if isinstance(patterns, list):
        for path in find([str(pattern) for pattern in patterns]):
            say(_listed(path))
    elif isinstance(paths, list):
        os.nice(NICENESS)
        for path in paths:
            say(of_file(str(path)))
    say(ListedTrace("", 0, 0, True))
