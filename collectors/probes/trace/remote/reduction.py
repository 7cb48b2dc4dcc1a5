"""One rank's trace as a few figures: how long it computed, communicated, copied, loaded data and did nothing.

Where a trace has GPU activity the GPU's time counts: kernels that are not communication are compute, ``gpu_memcpy`` and
``gpu_memset`` are copies. Where it has none, operators on the CPU are compute and c10d's are communication. Every
figure is the length of a union: what runs at the same time on several streams or threads counts once.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from collectors.probes.trace.remote import collectives
from collectors.probes.trace.remote.calls import Calls
from collectors.probes.trace.remote.spans import Spans, outside, united
from collectors.samples.traces import RankTrace, TraceStep

STEPS = 2_000
"""Steps that are kept."""
_MICRO = 1e-6
_LATEST = 1e17
"""Microseconds; nobody's clock shows more."""
_NAMES = 100_000
"""Names whose kind is remembered."""

_STEP = re.compile(r"ProfilerStep#(\d{1,12})$")
_LOADING = re.compile(r"enumerate\(DataLoader\)#|^DataLoader\b|dataloader.{0,200}?(?:next|fetch)", re.IGNORECASE)

KERNEL, COPY, NCCL, OPERATOR, C10D, ASYNC, STEP, DATA, NOTHING = range(9)

KERNELS = frozenset(("kernel", "Kernel", "concurrent_kernel"))
COPIES = frozenset(("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"))
OPERATORS = frozenset(("cpu_op", "Operator"))
ANNOTATIONS = frozenset(("user_annotation", "gpu_user_annotation"))
COUNTED = KERNELS | COPIES | OPERATORS | ANNOTATIONS
"""Categories of events that count, as Kineto names them and as it named them before."""
NAMED = frozenset((NCCL, ASYNC))
"""Kinds whose arguments are looked at."""


class Reduction:
    """Takes events, in any order, and tells a :class:`RankTrace`."""

    def __init__(self) -> None:
        self._spans = [Spans() for _ in range(NOTHING)]
        self._gpu, self._cpu = Calls(), Calls()
        self._steps: Dict[int, Tuple[float, float]] = {}
        self._kinds: Dict[Tuple[str, str], int] = {}
        self._first = float("inf")
        self._last = float("-inf")
        self.events = 0
        """Events that counted."""

    def add(self, category: str, name: str, at: float, duration: float, args: Mapping[str, object]) -> None:
        """One complete event (phase X); times in microseconds. Times that can be none are left out."""
        self.take(self.kind_of(category, name), name, at, duration, args)

    def take(self, kind: int, name: str, at: float, duration: float, args: Mapping[str, object]) -> None:
        """The same for an event whose kind was asked for already."""
        if kind == NOTHING or not (-_LATEST < at < _LATEST and 0 <= duration < _LATEST):
            return
        start = at * _MICRO
        end = (at + duration) * _MICRO
        self.events += 1
        if start < self._first:
            self._first = start
        if end > self._last:
            self._last = end
        if kind == STEP:
            self._step(name, start, end)
            return
        self._spans[kind].add(start, end)
        if kind == NCCL:
            self._gpu.add(name, start, end, args)
        elif kind == ASYNC:
            self._cpu.add(name, start, end, args)

    def kind_of(self, category: str, name: str) -> int:
        """What an event is, one of the module's numbers; :data:`NAMED` ones are told by their arguments."""
        if category not in COUNTED:
            return NOTHING
        kind = self._kinds.get((category, name))
        if kind is None:
            kind = _kind(category, name)
            if len(self._kinds) < _NAMES:
                self._kinds[category, name] = kind
        return kind

    def _step(self, name: str, start: float, end: float) -> None:
        match = _STEP.search(name)
        number = int(match.group(1)) if match else 0
        # the same step is there once for the CPU and once for the GPU: from the first's start to the last's end
        known = self._steps.get(number)
        if known is not None:
            self._steps[number] = (min(start, known[0]), max(end, known[1]))
        elif len(self._steps) < STEPS:
            self._steps[number] = (start, end)

    def result(self, about: Mapping[str, Any], path: str, size: int, damaged: int, why: str) -> RankTrace:
        """The figures. ``about`` is what :class:`Scanner` found out, ``why`` says why it was not read to its end."""
        spans = self._spans
        gpu = bool(spans[KERNEL] or spans[NCCL] or spans[COPY])
        # on CPU the operators of a data loader are no compute: on a GPU they would not be seen either
        compute = spans[KERNEL] if gpu else outside(spans[OPERATOR], spans[DATA])
        talks = [spans[NCCL]] if gpu else [spans[ASYNC], spans[C10D]]
        copies = spans[COPY]
        wall = max(0.0, self._last - self._first) if self.events else 0.0
        computed = compute.total()
        busy = united([compute, *talks, copies])
        info = about.get("distributedInfo")
        known: Mapping[str, Any] = info if isinstance(info, dict) else {}
        base = about.get("baseTimeNanoseconds")
        offset = base / 1e9 if isinstance(base, int) and not isinstance(base, bool) and abs(base) < 1 << 63 else 0.0
        calls = (self._gpu if gpu else self._cpu).told(self._first)
        return RankTrace(
            node="", path=path, size=size,
            rank=_small(known.get("rank")), world_size=_small(known.get("world_size")),
            device="gpu" if gpu else "cpu", events=self.events, damaged=damaged, why=why,
            began=_rounded(self._first + offset) if self.events and self._first + offset > 1e8 else None,
            wall=_rounded(wall), compute=_rounded(computed), communication=_rounded(united(talks)),
            exposed=_rounded(united([compute, *talks]) - computed), memcpy=_rounded(copies.total()),
            idle=_rounded(max(0.0, wall - busy)),
            data=_rounded(united([compute, *talks, copies, spans[DATA]]) - busy),
            inexact=_rounded(sum(each.moved for each in (compute, copies, *talks))),
            steps=[self._told_step(number, compute, talks, copies) for number in sorted(self._steps)],
            totals=calls.totals, longest=calls.longest, calls=calls.first, calls_left_out=calls.left_out,
        )  # fmt: skip

    def _told_step(self, number: int, compute: Spans, talks: List[Spans], copies: Spans) -> TraceStep:
        start, end = self._steps[number]
        talking = [list(each.within(start, end)) for each in talks]
        computing = list(compute.within(start, end))
        computed = united([computing])
        busy = united([computing, *talking, list(copies.within(start, end))])
        return TraceStep(
            number, _rounded(start - self._first), _rounded(end - start), _rounded(computed),
            _rounded(united(talking)), _rounded(united([computing, *talking]) - computed),
            _rounded(max(0.0, end - start - busy)),
        )  # fmt: skip


def _kind(category: str, name: str) -> int:
    if category in KERNELS:
        return NCCL if collectives.KERNEL.search(name) else KERNEL
    if category in COPIES:
        return COPY
    if _STEP.match(name):
        return STEP
    if category == "gpu_user_annotation":
        return NOTHING
    if collectives.ANNOTATION.match(name):
        return ASYNC
    if category in OPERATORS and (name.startswith("c10d::") or name == "record_param_comms"):
        return C10D
    if _LOADING.search(name):
        return DATA
    return OPERATOR if category in OPERATORS else NOTHING


def _small(value: object) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def _rounded(seconds: float) -> float:
    return round(seconds, 9)
