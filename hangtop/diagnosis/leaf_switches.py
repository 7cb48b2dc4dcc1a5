"""The leaf switch that the nodes of a finding share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.tables.kinds import word_of


def with_shared_leaf(job: Job, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings; the first of each kind names the leaf switch of all nodes of that kind, other nodes not."""
    found = list(findings)
    leaves = {name: node.leaf for name, node in job.nodes.items() if node.leaf}
    alarms = [f for f in found if f.severity != "info" and word_of(f.kind) != "none" and not f.cause]
    for kind in dict.fromkeys(finding.kind for finding in alarms):
        own = [finding for finding in alarms if finding.kind == kind]
        nodes = {node for finding in own for node in finding.nodes}
        shared = {leaves.get(node, "") for node in nodes}
        elsewhere = {leaf for name, leaf in leaves.items() if name not in nodes} - shared
        if len(nodes) > 1 and len(shared) == 1 and "" not in shared and elsewhere:
            text = f"all {len(nodes)} nodes hang at leaf switch {shared.pop()}"
            proof = (*own[0].evidence, Evidence(Observer.CONTEXT, "topology by scontrol", None, text))
            found[found.index(own[0])] = replace(own[0], summary=f"{own[0].summary}; {text}", evidence=proof)
    return tuple(found)
