"""A trace's collectives: the first ones in order, the longest, and sums by operation and group."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Tuple

from collectors.probes.trace.remote.collectives import told
from collectors.samples.traces import TraceCall, TraceTotal

FIRST = 4_000
"""Calls that are kept to be compared with those of other ranks: tens of steps of a sharded model, 0.3 MB."""
LONGEST = 20
GROUPS = 500
"""Pairs of operation and group that are summed apart."""

_Row = Tuple[float, float, str, str, int, int]
"""Start, seconds, operation, group, bytes or -1, number or -1."""


class CallTotals(NamedTuple):
    """What is told of them; times from the trace's beginning."""

    first: List[TraceCall]
    longest: List[TraceCall]
    totals: List[TraceTotal]
    left_out: int


class Calls:
    """Takes calls in any order; its memory has a bound."""

    def __init__(self) -> None:
        self._rows: List[_Row] = []
        self._longest: List[_Row] = []
        self._totals: Dict[Tuple[str, str], TraceTotal] = {}
        self._count = 0

    def add(self, name: str, start: float, end: float, args: Mapping[str, object]) -> None:
        """One more; times in seconds."""
        said = told(name, args)
        row = (start, end - start, said.op, said.group, _or(said.size), _or(said.seq))
        self._count += 1
        self._rows.append(row)
        if len(self._rows) >= 4 * FIRST:
            self._keep()
        key = said.op, said.group
        known = self._totals.get(key)
        if known is None:
            if len(self._totals) < GROUPS:
                self._totals[key] = TraceTotal(
                    said.op, said.group, said.ranks, said.group_size, 1, end - start, end - start, said.size
                )
            return
        self._totals[key] = known._replace(
            calls=known.calls + 1,
            seconds=known.seconds + end - start,
            worst=max(known.worst, end - start),
            size=None if known.size is None or said.size is None else known.size + said.size,
        )

    def _keep(self) -> None:
        self._longest = sorted({*self._longest, *self._rows}, key=_seconds, reverse=True)[:LONGEST]
        self._rows.sort()
        del self._rows[FIRST:]

    def told(self, zero: float) -> CallTotals:
        """What was collected; ``zero`` is the time that starts are counted from."""
        self._rows.sort()
        longest = sorted({*self._longest, *self._rows}, key=_seconds, reverse=True)[:LONGEST]
        totals = sorted(self._totals.values(), key=lambda total: -total.seconds)
        return CallTotals(
            [_call(row, zero) for row in self._rows[:FIRST]],
            [_call(row, zero) for row in longest],
            [total._replace(seconds=round(total.seconds, 9), worst=round(total.worst, 9)) for total in totals],
            max(0, self._count - FIRST),
        )


def _seconds(row: _Row) -> float:
    return row[1]


def _or(number: "int | None") -> int:
    return -1 if number is None else number


def _call(row: _Row, zero: float) -> TraceCall:
    start, seconds, op, group, size, seq = row
    return TraceCall(
        op, group, round(start - zero, 9), round(seconds, 9), None if size < 0 else size, None if seq < 0 else seq
    )
