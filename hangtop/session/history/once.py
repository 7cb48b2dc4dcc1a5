"""Verdicts that follow each other name the same thousands of ranks and nodes: those are held once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from hangtop.diagnosis.finding import Verdict

LONG = 32
"""Names in a row from which on they are worth being looked for in the verdict before."""

T = TypeVar("T")


def held_once(verdict: Verdict, before: Verdict) -> Verdict:
    """The same verdict; ranks and nodes that the one before names as well are that one's own tuples."""
    known: dict[object, object] = {names: names for names in _long(before)}
    if not known:
        return verdict

    def own(names: tuple[T, ...]) -> tuple[T, ...]:
        found = known.get(names) if len(names) >= LONG else None
        return names if found is None else found  # type: ignore[return-value]  # equal, so of one type

    findings = tuple(
        replace(
            one, ranks=own(one.ranks), nodes=own(one.nodes), gpus=own(one.gpus), ports=own(one.ports)
        ) for one in verdict.findings
    )  # fmt: skip
    waits = tuple(replace(box, ranks=own(box.ranks), nodes=own(box.nodes)) for box in verdict.waits)
    unknown = tuple(replace(gap, nodes=own(gap.nodes)) for gap in verdict.unknown)
    return replace(verdict, findings=findings, waits=waits, unknown=unknown)


def _long(verdict: Verdict) -> Iterator[tuple[object, ...]]:
    for one in verdict.findings:
        yield from (names for names in (one.ranks, one.nodes, one.gpus, one.ports) if len(names) >= LONG)
    for box in verdict.waits:
        yield from (names for names in (box.ranks, box.nodes) if len(names) >= LONG)
    yield from (gap.nodes for gap in verdict.unknown if len(gap.nodes) >= LONG)
