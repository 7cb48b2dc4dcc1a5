"""The leaf switch that the nodes of a finding share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.tables.kinds import word_of


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
    return Evidence(
        Observer.CONTEXT,
        "topology by scontrol",
        None,
        f"all {len(nodes)} nodes hang at leaf switch {shared.pop()}{too}",
    )
