"""The leaf switch of each node: the order in which nodes are shown, and what the nodes of a finding share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.tables.kinds import word_of

LARGEST_SHARE = 3 / 4
"""Ours: with more switches than this share of the nodes an order by them tells nothing."""


def leaves_of(job: Job, nodes: Collection[str]) -> Mapping[str, str]:
    """Leaf switch by node, where some of these nodes hang at one switch and others do not; else empty."""
    leaves = {name: node.leaf for name, node in job.nodes.items() if node.leaf and name in nodes}
    return leaves if 1 < len(set(leaves.values())) <= LARGEST_SHARE * len(nodes) else {}


def with_shared_leaf(job: Job, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings; the first of each kind names the leaf switch that all nodes of that kind share, others not."""
    found = list(findings)
    nodes_of: dict[str, set[str]] = defaultdict(set)
    first: dict[str, int] = {}
    for place, finding in enumerate(found):
        if finding.severity != "info" and word_of(finding.kind) != "none" and not finding.cause:
            nodes_of[finding.kind].update(finding.nodes)
            first.setdefault(finding.kind, place)
    for kind, nodes in nodes_of.items():
        if len(nodes) > 1 and (shared := _shared(job, nodes)):
            place = first[kind]
            summary, proof = f"{found[place].summary}; {shared.text}", (*found[place].evidence, shared)
            found[place] = replace(found[place], summary=summary, evidence=proof)
    return tuple(found)


def _shared(job: Job, nodes: Collection[str]) -> Evidence | None:
    """The leaf switch at which all these nodes hang and others of the job do not."""
    leaves = {name: node.leaf for name, node in job.nodes.items() if node.leaf}
    shared = {leaves.get(node, "") for node in nodes}
    others = [leaf for name, leaf in leaves.items() if name not in nodes]
    beside = sum(leaf in shared for leaf in others)
    if len(shared) != 1 or "" in shared or beside == len(others):
        return None
    too = f", as {count(beside, 'other')} of the job" if beside else ""
    return Evidence("topology by scontrol", None, f"all {len(nodes)} nodes hang at leaf switch {shared.pop()}{too}")
