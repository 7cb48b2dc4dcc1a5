"""Which firewall of a node refuses or drops a connection, by name, and how it lets the job through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from collectors.samples.probes import Observation
from hangtop.diagnosis.finding import Evidence, Finding, Observer

REMEDIES: Mapping[str, str] = MappingProxyType({
    "firewalld": "firewall-cmd --permanent --zone=trusted --add-source=SUBNET && firewall-cmd --reload",
    "ufw": "ufw allow from SUBNET",
    "nftables": "nft insert rule TABLE CHAIN ip saddr SUBNET accept, in the table and chain named here",
    "iptables": "iptables -I INPUT -s SUBNET -j ACCEPT",
    "SELinux": "ausearch -m avc -ts recent shows whether it denies; setenforce 0 for a trial",
})  # fmt: skip
"""By the firewall's name in the node's answer; SUBNET is the network of the job's nodes."""


def firewall_of(answers: Mapping[str, Sequence[Observation]], nodes: Sequence[str]) -> tuple[str, str] | None:
    """Description and remedy of the first active firewall on these nodes; None if none is known.

    Example: ``ufw on node2 (Default: deny (incoming), allow (outgoing))`` and ``on node2: ufw allow from SUBNET``.
    """
    for node in nodes:
        for answer in answers.get(node, ()):
            if answer.name == "firewall" and isinstance(answer.value, str) and answer.subject in REMEDIES:
                return f"{answer.subject} on {node} ({answer.value})", f"on {node}: {REMEDIES[answer.subject]}"
    return None


def with_firewall(finding: Finding, answers: Mapping[str, Sequence[Observation]], at: float) -> Finding:
    """Add the firewall of its nodes to a path_blocked finding: as evidence, and its remedy as advice."""
    blocks = firewall_of(answers, finding.nodes) if finding.kind == "path_blocked" else None
    if blocks is None:
        return finding
    evidence = (*finding.evidence, Evidence(Observer.PROBE, "firewall", at, blocks[0]))
    return replace(finding, evidence=evidence, advice=f"A firewall is active there. {blocks[1]}")
