"""Order all findings: each cause once, root causes first, consequences after them with less weight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from hangtop.diagnosis.finding import LIKELY, Finding, Severity, independent
from hangtop.diagnosis.tables.kinds import KINDS, ROWS, Where

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
CONSEQUENCE_SHARE = 0.6
"""Share of its weight that a consequence keeps: a consequence is true, but is not the cause."""
EVIDENCE_KEPT = 12
WHERES: tuple[Where, ...] = get_args(Where)


def rank_findings(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings that report the same, mark consequences with their cause, and put root causes first."""
    merged = _merge(found)
    causes = _causes(merged)
    worst: dict[int, Severity] = {}
    """Place of a cause → severity of the worst finding that it explains: a cause is no less severe than that."""
    for place, cause in causes.items():
        worst[cause] = min(worst.get(cause, merged[cause].severity), merged[place].severity, key=SEVERITIES.index)
    roots, effects = [], []
    for place, finding in enumerate(merged):
        if place in causes:
            weight = round(finding.weight * CONSEQUENCE_SHARE, 2)
            effects.append(replace(finding, cause=merged[causes[place]].kind, weight=weight))
        else:
            roots.append(replace(finding, severity=worst.get(place, finding.severity)))
    return (*sorted(roots, key=_order), *sorted(effects, key=_order))


def _order(finding: Finding) -> tuple[int, int, float, str, tuple[int, ...], tuple[str, ...], str]:
    rest = finding.kind, finding.ranks, finding.nodes, finding.summary
    return (SEVERITIES.index(finding.severity), KINDS[finding.kind].nearness, -finding.weight, *rest)


def _merge(found: Iterable[Finding]) -> list[Finding]:
    """Fold findings of one kind about the same ranks, GPUs and ports: two sources are surer than one.

    A summary becomes one line, even if a name from a log has line breaks.
    """
    kept: dict[tuple[object, ...], Finding] = {}
    one_line = (replace(finding, summary=" ".join(finding.summary.split())) for finding in found)
    for finding in sorted(one_line, key=_order):
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
"""Kind → kinds that explain it, each with what both findings must share."""
for _row in ROWS:
    for _where, _effects in _row.explains.items():
        for _effect in _effects:
            _EXPLAINED_BY[_effect].append((_row.name, _where))
Thing = tuple[str, Where, str | int]
"""A kind of finding, and a rank, node, GPU or port of a finding of this kind."""


def _places(found: Sequence[Finding]) -> Mapping[Thing, Sequence[int]]:
    """Places of findings by their kind and subject, because thousands of nodes may have thousands of findings."""
    places: dict[Thing, list[int]] = defaultdict(list)
    for place, finding in enumerate(found):
        for where in WHERES if finding.severity != "info" else ():
            for thing in _things(finding, where):
                places[finding.kind, where, thing].append(place)
    return places


def _causes(found: Sequence[Finding]) -> Mapping[int, int]:
    """Place of a consequence → place of the first finding that explains it; without cycles.

    Of findings that explain each other (a crash and time-outs), the first is the root, so it asks last.
    """
    places, causes = _places(found), dict[int, int]()

    def root_of(place: int) -> int:
        while place in causes:
            place = causes[place]
        return place

    for place, finding in reversed([*enumerate(found)]):
        candidates = {
            candidate
            for kind, where in _EXPLAINED_BY.get(finding.kind, ())
            for thing in _things(finding, where)
            for candidate in places.get((kind, where, thing), ())
        }
        fitting = (c for c in sorted(candidates) if _may_cause(found[c], finding) and root_of(c) != place)
        if (cause := next(fitting, None)) is not None:
            causes[place] = cause
    return causes


def _may_cause(cause: Finding, finding: Finding) -> bool:
    """Whether ``cause`` is as severe as ``finding``, or a broken part: a warning about hardware may explain a hang."""
    broken = KINDS[cause.kind].word == "at_risk" and cause.weight >= LIKELY
    return broken or SEVERITIES.index(cause.severity) <= SEVERITIES.index(finding.severity)


def _things(finding: Finding, where: Where) -> Collection[str | int]:
    """Subjects of a finding: ranks, nodes, GPUs or ports. Findings without a subject share the subject ``""``."""
    things: dict[Where, Collection[str | int]] = {
        "rank": finding.ranks, "node": finding.nodes, "gpu": finding.gpus, "port": finding.ports
    }  # fmt: skip
    return things.get(where) or ("",)
