"""From all findings to an order: one cause told once, the root first, consequences behind it and lower."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import get_args

from hangtop.diagnosis.certainty import LIKELY
from hangtop.diagnosis.finding import Evidence, Finding, Severity
from hangtop.diagnosis.tables.kinds import ROWS, Where, kind_row

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
CONSEQUENCE_SHARE = 0.6
"""Weight that a consequence keeps: it is true, but not the cause."""
EVIDENCE_KEPT = 12
WHERES: tuple[Where, ...] = get_args(Where)


def rank_findings(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings that tell the same, mark consequences with their cause, and put root causes first."""
    merged = _merge(found)
    causes = _Causes(merged)
    apart, effects = [], []
    worst: dict[int, Severity] = {}
    """Place of a cause → severity of the worst finding that it explains: a cause is no less severe than that."""
    for place, finding in enumerate(merged):
        cause = None if finding.cause else causes.of(finding)
        if cause is not None:
            worst[cause] = min(worst.get(cause, finding.severity), finding.severity, key=SEVERITIES.index)
        name = finding.cause if cause is None else merged[cause].kind
        if name:
            effects.append(replace(finding, cause=name, weight=round(finding.weight * CONSEQUENCE_SHARE, 2)))
        else:
            apart.append((place, finding))
    roots = [_as_severe(finding, worst.get(place, finding.severity)) for place, finding in apart]
    # where all of them explain each other in a circle, nobody would be left to accuse
    if not roots and effects:
        nearest = min(merged, key=_order)
        return (nearest, *sorted((f for f in effects if f.kind != nearest.kind), key=_order))
    return (*sorted(roots, key=_order), *sorted(effects, key=_order))


def _as_severe(finding: Finding, severity: Severity) -> Finding:
    """A finding, at the least as severe as that."""
    return replace(finding, severity=min(finding.severity, severity, key=SEVERITIES.index))


def _order(finding: Finding) -> tuple[int, int, float, str, tuple[int, ...], tuple[str, ...], str]:
    return (
        SEVERITIES.index(finding.severity),
        kind_row(finding.kind).nearness,
        -finding.weight,
        finding.kind,
        finding.ranks,
        finding.nodes,
        finding.summary,
    )


def _merge(found: Iterable[Finding]) -> list[Finding]:
    """Fold findings of one kind about the same ranks, GPUs and ports: two sources are surer than one."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in sorted(map(_in_one_line, found), key=_order):
        nodes = finding.nodes if not finding.ranks else ()
        setting = finding.summary if finding.kind.startswith("env_") else ""
        key = (finding.kind, finding.ranks, finding.gpus, finding.ports, nodes, setting)
        known = kept.get(key)
        kept[key] = _both(known, finding) if known else finding
    return sorted(kept.values(), key=_order)


def _in_one_line(finding: Finding) -> Finding:
    """A summary is one line, whatever an operation is called in a log."""
    line = " ".join(finding.summary.split())
    return finding if line == finding.summary else replace(finding, summary=line)


def _both(surer: Finding, other: Finding) -> Finding:
    evidence = tuple(dict.fromkeys((*surer.evidence, *other.evidence)))[:EVIDENCE_KEPT]
    independent = {_source_of(line) for line in surer.evidence}.isdisjoint(
        {_source_of(line) for line in other.evidence}
    )
    weight = 1 - (1 - surer.weight) * (1 - other.weight / 2) if independent else surer.weight
    return replace(
        surer,
        weight=round(min(0.99, weight), 2),
        evidence=evidence,
        nodes=tuple(sorted({*surer.nodes, *other.nodes})),
        next=tuple(dict.fromkeys((*surer.next, *other.next))),
    )


def _source_of(line: Evidence) -> str:
    return line.source.split(" ")[0].split(":")[0]


_CAUSES = frozenset((row.name, effects.where) for row in ROWS for effects in row.explains)
_EXPLAINED_BY: dict[str, list[tuple[str, Where]]] = defaultdict(list)
"""Kind → kinds that explain it, and what both must speak of."""
for _row in ROWS:
    for _effects in _row.explains:
        for _effect in _effects.kinds:
            _EXPLAINED_BY[_effect].append((_row.name, _effects.where))


class _Causes:
    """Findings by what they speak of: thousands of nodes may have thousands, which nobody compares pair by pair."""

    def __init__(self, found: Sequence[Finding]) -> None:
        """Take all findings, the nearest to the root first."""
        self._found = found
        self._places: dict[tuple[str, Where, str | int], list[int]] = defaultdict(list)
        for place, finding in enumerate(found):
            for where in WHERES if finding.severity != "info" else ():
                if (finding.kind, where) in _CAUSES:
                    for thing in _things(finding, where):
                        self._places[finding.kind, where, thing].append(place)

    def of(self, finding: Finding) -> int | None:
        """Return the place of the nearest other finding that explains this one; None for a root.

        A finding whose rule knows that it followed this one explains nothing of it.
        """
        nearest = len(self._found)
        for kind, where in _EXPLAINED_BY.get(finding.kind, ()):
            for thing in _things(finding, where):
                nearest = self._nearer(finding, self._places.get((kind, where, thing), ()), nearest)
        return nearest if nearest < len(self._found) else None

    def _nearer(self, finding: Finding, places: Sequence[int], nearest: int) -> int:
        """The first of these places, in order, that may be a cause, if it comes before ``nearest``; else that."""
        for place in places:
            if place >= nearest:
                break
            other = self._found[place]
            if other is finding or other.cause == finding.kind:
                continue
            if SEVERITIES.index(other.severity) <= SEVERITIES.index(finding.severity) or _is_broken(other):
                return place
        return nearest


def _is_broken(finding: Finding) -> bool:
    """Hardware or a link that is broken, likely at the least: a job may hang by what alone would be a warning."""
    return kind_row(finding.kind).word == "at_risk" and finding.weight >= LIKELY


def _things(finding: Finding, where: Where) -> Collection[str | int]:
    """What a finding speaks of; of ``any``, the job."""
    match where:
        case "rank":
            return finding.ranks
        case "node":
            return finding.nodes
        case "gpu":
            return finding.gpus
        case "port":
            return finding.ports
        case _:
            return ("",)
