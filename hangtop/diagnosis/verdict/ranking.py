"""From all findings to an order: one cause told once, the root first, consequences behind it and lower."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from hangtop.diagnosis.finding import LIKELY, Finding, Severity, independent
from hangtop.diagnosis.tables.kinds import KINDS, ROWS, Where

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
CONSEQUENCE_SHARE = 0.6
"""Weight that a consequence keeps: it is true, but not the cause."""
EVIDENCE_KEPT = 12
WHERES: tuple[Where, ...] = get_args(Where)


def rank_findings(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings that tell the same, mark consequences with their cause, and put root causes first."""
    merged = _merge(found)
    places = _places(merged)
    apart, effects = [], []
    worst: dict[int, Severity] = {}
    """Place of a cause → severity of the worst finding that it explains: a cause is no less severe than that."""
    for place, finding in enumerate(merged):
        cause = None if finding.cause else _cause_of(finding, merged, places)
        if cause is not None:
            worst[cause] = min(worst.get(cause, merged[cause].severity), finding.severity, key=SEVERITIES.index)
        name = finding.cause if cause is None else merged[cause].kind
        if name:
            effects.append(replace(finding, cause=name, weight=round(finding.weight * CONSEQUENCE_SHARE, 2)))
        else:
            apart.append((place, finding))
    roots = [replace(finding, severity=worst.get(place, finding.severity)) for place, finding in apart]
    # where all of them explain each other in a circle, nobody would be left to accuse
    if not roots and effects:
        nearest = min(merged, key=_order)
        return (nearest, *sorted((f for f in effects if f.kind != nearest.kind), key=_order))
    return (*sorted(roots, key=_order), *sorted(effects, key=_order))


def _order(finding: Finding) -> tuple[int, int, float, str, tuple[int, ...], tuple[str, ...], str]:
    return (
        SEVERITIES.index(finding.severity),
        KINDS[finding.kind].nearness,
        -finding.weight,
        finding.kind,
        finding.ranks,
        finding.nodes,
        finding.summary,
    )


def _merge(found: Iterable[Finding]) -> list[Finding]:
    """Fold findings of one kind about the same ranks, GPUs and ports: two sources are surer than one.

    A summary is one line, whatever an operation is called in a log.
    """
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in sorted((replace(one, summary=" ".join(one.summary.split())) for one in found), key=_order):
        nodes = finding.nodes if not finding.ranks else ()
        setting = finding.summary if finding.kind.startswith("env_") else ""
        key = (finding.kind, finding.ranks, finding.gpus, finding.ports, nodes, setting)
        kept[key] = _both(kept[key], finding) if key in kept else finding
    return sorted(kept.values(), key=_order)


def _both(surer: Finding, other: Finding) -> Finding:
    apart = independent(surer.evidence).isdisjoint(independent(other.evidence))
    weight = 1 - (1 - surer.weight) * (1 - other.weight / 2) if apart else surer.weight
    return replace(
        surer,
        weight=round(min(0.99, weight), 2),
        evidence=tuple(dict.fromkeys((*surer.evidence, *other.evidence)))[:EVIDENCE_KEPT],
        nodes=tuple(sorted({*surer.nodes, *other.nodes})),
        next=tuple(dict.fromkeys((*surer.next, *other.next))),
    )


_EXPLAINED_BY: dict[str, list[tuple[str, Where]]] = defaultdict(list)
"""Kind → kinds that explain it, and what both must speak of."""
for _row in ROWS:
    for _effects in _row.explains:
        for _effect in _effects.kinds:
            _EXPLAINED_BY[_effect].append((_row.name, _effects.where))
Thing = tuple[str, Where, str | int]
"""A kind of finding, and what one of that kind speaks of."""


def _places(found: Sequence[Finding]) -> Mapping[Thing, Sequence[int]]:
    """Places of findings by what they speak of: thousands of nodes may have thousands of findings."""
    places: dict[Thing, list[int]] = defaultdict(list)
    for place, finding in enumerate(found):
        for where in WHERES if finding.severity != "info" else ():
            for thing in _things(finding, where):
                places[finding.kind, where, thing].append(place)
    return places


def _cause_of(finding: Finding, found: Sequence[Finding], places: Mapping[Thing, Sequence[int]]) -> int | None:
    """The place of the nearest other finding that explains this one; None for a root."""
    candidates = {
        place
        for kind, where in _EXPLAINED_BY.get(finding.kind, ())
        for thing in _things(finding, where)
        for place in places.get((kind, where, thing), ())
    }
    return min((place for place in candidates if _may_cause(found[place], finding)), default=None)


def _may_cause(cause: Finding, finding: Finding) -> bool:
    """Whether one is as severe as the other, or something broken: a job may hang by what alone would be a warning.

    A finding whose rule knows that it followed the other explains nothing of it.
    """
    if cause is finding or cause.cause == finding.kind:
        return False
    broken = KINDS[cause.kind].word == "at_risk" and cause.weight >= LIKELY
    return broken or SEVERITIES.index(cause.severity) <= SEVERITIES.index(finding.severity)


def _things(finding: Finding, where: Where) -> Collection[str | int]:
    """What a finding speaks of; of ``any``, the job. Two findings that name no rank may speak of the same one."""
    things: dict[Where, Collection[str | int]] = {
        "rank": finding.ranks, "node": finding.nodes, "gpu": finding.gpus, "port": finding.ports
    }  # fmt: skip
    return things.get(where) or ("",)
