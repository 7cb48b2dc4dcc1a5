"""Reduce one rank's profiler trace (torch.profiler, Kineto), of any size, to a few figures.

In a trace with GPU activity, communication kernels are communication and all other GPU activity is compute. In a trace
without, c10d operators are communication and all other CPU operators are compute. Each figure is the length of a union
of intervals, so simultaneous work on several streams or threads counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from collectors.fleet.clean import clean_value
from collectors.formats.trace_events import Read, TraceEvents, looks_like
from collectors.samples.collectives import RankTrace, TraceCall

__all__ = ["looks_like", "of_stream"]

CALLS = 4_000
"""Most collectives kept for the comparison with other ranks: tens of steps of a sharded model."""
FRESH = 100_000
"""Most intervals that are kept before they are merged into the union."""
CUT = "it ends before its last event"
_LATEST = 1e17
"""Latest plausible time, in microseconds."""

_ON_GPU = frozenset(("kernel", "Kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset"))
_COUNTED = _ON_GPU | {"cpu_op", "user_annotation"}
_LOADING = re.compile(r"enumerate\(DataLoader\)#|^DataLoader\b|dataloader.{0,200}?(?:next|fetch)", re.IGNORECASE)
_RANK = re.compile(r"(?:^|[^a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)", re.IGNORECASE)
_KERNEL = re.compile(r"nccl\w{0,80}?Kernel|rcclGeneric|nvshmem|msccl|cross_device_reduce", re.IGNORECASE)
"""Names of communication kernels: of NCCL and RCCL in all versions, NVSHMEM, MSCCL and vLLM."""
_ANNOTATION = re.compile(r"(?:gloo|nccl|mpi|ucc|xccl):(?=\w)")
"""Start of c10d's annotation of one operation; on the CPU it lasts from call to completion."""
_OPS = (
    ("allreduce", "all_reduce"), ("reducescatter", "reduce_scatter"), ("allgather", "all_gather"),
    ("alltoall", "all_to_all"), ("broadcast", "broadcast"), ("barrier", "barrier"), ("sendrecv", "send_recv"),
    ("send", "send"), ("recv", "recv"), ("gather", "gather"), ("scatter", "scatter"), ("reduce", "reduce"),
)  # fmt: skip
COMPUTE, COLLECTIVE, OPERATOR, C10D, ANNOTATED, STEP, DATA = (
    "compute", "collective", "operator", "c10d", "annotated", "step", "data",
)  # fmt: skip

Span = tuple[float, float]


def merged(*parts: Iterable[Span]) -> list[Span]:
    """Merge several lists of intervals into disjoint intervals in order."""
    found: list[Span] = []
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


def op_of(name: str) -> str:
    """``all_reduce`` for ``allreduce``, ``ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)`` and ``gloo:all_reduce``."""
    letters = re.sub(r"[^a-z]", "", name[:200].lower())
    return next((op for word, op in _OPS if word in letters), name[:60])


def described(name: str, args: Mapping[str, object], seconds: float) -> TraceCall:
    """The call of a communication event; ``args`` may hold anything.

    Kineto copies c10d's record onto NCCL's kernels (output_json.cpp). Without the record, the kernel's name gives the
    operation, although one kernel may run several grouped calls.
    """
    collective = args.get("Collective name")
    record = [args.get(f"Process Group {what}") for what in ("Name", "Description", "Ranks")]
    group = " ".join(str(word) for word in record if isinstance(word, str | list) and word not in ("", "undefined"))
    op = op_of(collective if isinstance(collective, str) and collective else name)
    return TraceCall(op, group[:200], round(seconds, 9), _count(args.get("Seq")))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _number(value: object) -> bool:
    # an integer too large for a float would raise
    return isinstance(value, float) or (type(value) is int and -(1 << 63) < value < 1 << 63)


class Reduction:
    """Reduces events, in any order, to a :class:`RankTrace`."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Span]] = {}
        self._room: dict[str, int] = {}
        """Number of intervals of a kind above which they are merged again."""
        self._kinds: dict[tuple[str, str], str] = {}
        self._calls: dict[str, list[tuple[float, TraceCall]]] = {COLLECTIVE: [], ANNOTATED: []}
        self._first, self._last = float("inf"), float("-inf")
        self._events = 0

    def take(self, event: Any) -> None:
        """Take one event; only complete events (phase X) with the right types count."""
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
        spans = self._spans.setdefault(kind, [])
        spans.append((start, end))
        if len(spans) > self._room.get(kind, FRESH):
            spans[:] = merged(spans)
            self._room[kind] = FRESH + 2 * len(spans)
        if kind in self._calls:
            calls = self._calls[kind]
            calls.append((start, described(name, args if isinstance(args, dict) else {}, end - start)))
            if len(calls) > 4 * CALLS:
                self._calls[kind] = sorted(calls, key=lambda call: call[0])[:CALLS]

    def result(self, about: Mapping[str, Any], path: str, why: str) -> RankTrace:
        """The figures. ``about``: metadata of the document; ``why``: why its end was not read."""

        def of(*kinds: str) -> list[Span]:
            return merged(*(self._spans.get(kind, []) for kind in kinds))

        gpu = bool(of(COMPUTE, COLLECTIVE))
        talks = of(COLLECTIVE) if gpu else of(ANNOTATED, C10D)
        data = of(DATA)

        def computed(*others: list[Span]) -> float:
            """Length of the union of compute and ``others``; on a CPU without the operators of a data loader."""
            if gpu:
                return length(of(COMPUTE), *others)
            return length(of(OPERATOR), data, *others) - length(data, *others) + length(*others)

        wall = max(0.0, self._last - self._first) if self._events else 0.0
        busy = computed(talks)
        job, base = about.get("distributedInfo"), about.get("baseTimeNanoseconds")
        known: Mapping[str, Any] = job if isinstance(job, dict) else {}
        began = self._first + (base / 1e9 if type(base) is int and abs(base) < 1 << 63 else 0.0)
        rank, named = _count(known.get("rank")), _RANK.search(path.rsplit("/", 1)[-1])
        calls = sorted(self._calls[COLLECTIVE if gpu else ANNOTATED], key=lambda call: call[0])[:CALLS]
        return RankTrace(
            path=path, rank=int(named.group(1)) if rank is None and named else rank,
            world_size=_count(known.get("world_size")), events=self._events, why=why,
            began=round(began, 9) if self._events and began > 1e8 else None, wall=round(wall, 9),
            compute=round(computed(), 9), communication=round(length(talks), 9), exposed=round(busy - computed(), 9),
            idle=round(max(0.0, wall - busy), 9), data=round(computed(talks, data) - busy, 9),
            calls=[call for _, call in calls],
        )  # fmt: skip


def _kind(category: str, name: str) -> str:
    if category in _ON_GPU:
        return COLLECTIVE if _KERNEL.search(name) else COMPUTE
    if name.startswith("ProfilerStep#"):
        return STEP
    if _ANNOTATION.match(name):
        return ANNOTATED
    if category == "cpu_op" and (name.startswith("c10d::") or name == "record_param_comms"):
        return C10D
    if _LOADING.search(name):
        return DATA
    return OPERATOR if category == "cpu_op" else ""


def of_stream(read: Read, path: str) -> RankTrace:
    """The figures of a trace, read piece by piece. Raises :class:`BadFormat` if the data are no trace."""
    events, reduction = TraceEvents(read), Reduction()
    for event in events:
        reduction.take(event)
    cleaned: RankTrace = clean_value(reduction.result(events.about, path, "" if events.whole else CUT))
    return cleaned
