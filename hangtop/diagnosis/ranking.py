"""From all findings to an order: one cause told once, the root first, consequences behind it and lower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.tables.kinds import EXPLANATIONS, NEARNESS, Explains

SEVERITIES = ("critical", "warning", "info")
CONSEQUENCE_SHARE = 0.6
"""Confidence that a consequence keeps: it is true, but not the cause."""
EVIDENCE_KEPT = 12


def rank_findings(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings that tell the same, mark consequences with their cause, and put root causes first."""
    merged = _merge(found)
    roots, effects = [], []
    for finding in merged:
        cause = finding.cause or _cause(finding, merged)
        if cause:
            effects.append(replace(finding, cause=cause, confidence=round(finding.confidence * CONSEQUENCE_SHARE, 2)))
        else:
            roots.append(finding)
    # where all of them explain each other in a circle, nobody would be left to accuse
    if not roots and effects:
        nearest = min(merged, key=_order)
        return (nearest, *sorted((f for f in effects if f.kind != nearest.kind), key=_order))
    return (*sorted(roots, key=_order), *sorted(effects, key=_order))


def nearness(kind: str) -> int:
    """Distance of a kind from the root of a fault; what is in no row of the table comes last."""
    return next((level for level, kinds in enumerate(NEARNESS) if kind in kinds), len(NEARNESS))


def _order(finding: Finding) -> tuple[int, int, float, str, tuple[int, ...], tuple[str, ...], str]:
    return (
        SEVERITIES.index(finding.severity),
        nearness(finding.kind),
        -finding.confidence,
        finding.kind,
        finding.ranks,
        finding.nodes,
        finding.summary,
    )


def _merge(found: Iterable[Finding]) -> list[Finding]:
    """Fold findings of one kind about the same ranks, GPUs and ports: two witnesses are surer than one."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in sorted(found, key=_order):
        nodes = finding.nodes if not finding.ranks else ()
        setting = finding.summary if finding.kind.startswith("env_") else ""
        key = (finding.kind, finding.ranks, finding.gpus, finding.ports, nodes, setting)
        known = kept.get(key)
        kept[key] = _both(known, finding) if known else finding
    return sorted(kept.values(), key=_order)


def _both(surer: Finding, other: Finding) -> Finding:
    evidence = tuple(dict.fromkeys((*surer.evidence, *other.evidence)))[:EVIDENCE_KEPT]
    independent = {_witness(line) for line in surer.evidence}.isdisjoint({_witness(line) for line in other.evidence})
    confidence = 1 - (1 - surer.confidence) * (1 - other.confidence / 2) if independent else surer.confidence
    return replace(
        surer,
        confidence=round(min(0.99, confidence), 2),
        evidence=evidence,
        nodes=tuple(sorted({*surer.nodes, *other.nodes})),
        next=tuple(dict.fromkeys((*surer.next, *other.next))),
    )


def _witness(line: Evidence) -> str:
    return line.source.split(" ")[0].split(":")[0]


def _cause(finding: Finding, others: Sequence[Finding]) -> str:
    """Return the kind of the nearest other finding that explains this one; empty for a root.

    A finding whose rule knows that it followed this one explains nothing of it.
    """
    causes = [
        other for other in others if other is not finding and other.cause != finding.kind and _explains(other, finding)
    ]
    return min(causes, key=_order).kind if causes else ""


def _explains(cause: Finding, effect: Finding) -> bool:
    if cause.severity == "info" or SEVERITIES.index(cause.severity) > SEVERITIES.index(effect.severity):
        return False
    return any(
        cause.kind in row.cause and effect.kind in row.effects and _same(row, cause, effect) for row in EXPLANATIONS
    )


def _same(row: Explains, cause: Finding, effect: Finding) -> bool:
    if row.where == "any":
        return True
    if row.where == "rank":
        return bool(set(cause.ranks) & set(effect.ranks))
    if row.where == "node":
        return bool(set(cause.nodes) & set(effect.nodes))
    if row.where == "gpu":
        return bool(set(cause.gpus) & set(effect.gpus))
    return bool(set(cause.ports) & set(effect.ports))
