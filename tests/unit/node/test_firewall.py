"""Firewalls by name: what each tool prints, and what the probes make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.network import firewall
from collectors.samples.probes import Observation
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.firewall import firewall_of, with_firewall

DROPS = """\
table inet filter {
\tchain input {
\t\ttype filter hook input priority filter; policy accept;
\t\tct state invalid drop
\t\tiif "lo" accept
\t\ttcp dport 29500 drop
\t}
}
"""
FORWARDS = """\
table ip docker {
\tchain forward {
\t\ttype filter hook forward priority 0; policy drop;
\t}
\tchain input {
\t\ttype filter hook input priority 0; policy accept;
\t}
}
"""
ZONE = "public (active)\n  target: default\n  interfaces: eth0\n  services: ssh\n  ports: \n"


@pytest.mark.parametrize(
    ("tools", "found"),
    [
        ({"nft": f"cat <<'END'\n{DROPS}END"},
         [("nftables", "table inet filter, chain input: tcp dport 29500 drop", "")]),
        ({"nft": f"cat <<'END'\n{FORWARDS}END"}, []),
        ({"nft": "echo 'Operation not permitted (you must be root)' >&2; exit 1"},
         [("nftables", None, "Operation not permitted (you must be root)")]),
        ({"ufw": "echo Status: active; echo 'Default: deny (incoming), allow (outgoing)'"},
         [("ufw", "Default: deny (incoming), allow (outgoing)", "")]),
        ({"ufw": "echo Status: inactive"}, []),
        ({"firewall-cmd": f"[ $1 = --state ] && echo running || cat <<'END'\n{ZONE}END"},
         [("firewalld", "public (active); interfaces: eth0; services: ssh; ports:", "")]),
        ({"firewall-cmd": "echo not running >&2; exit 252"}, []),
        ({"iptables": "echo '-P INPUT ACCEPT'; echo '-A INPUT -s 10.0.0.0/8 -p tcp -j REJECT --reject-with icmp-port'"},
         [("iptables", "-A INPUT -s 10.0.0.0/8 -p tcp -j REJECT --reject-with icmp-port", "")]),
        ({"iptables": "echo '-P FORWARD DROP'; echo '-A DOCKER -j DROP'"}, []),
    ],
    ids=["nft", "nft forwards alone", "nft without root", "ufw", "ufw off", "firewalld", "firewalld off", "iptables",
         "docker's chains"],
)  # fmt: skip
def test_a_firewall_is_told_by_its_own_tool(
    tools: dict[str, str], found: list[tuple[str, str | None, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    only_here = {name: str(tmp_path / name) for name in tools}
    monkeypatch.setattr("collectors.node.child.find", lambda name, _more=(): only_here.get(name))
    assert [(one.subject, one.value, one.error) for one in firewall.firewalls() if one.subject != "SELinux"] == found


UFW = Observation("firewall", "ufw", "Default: deny (incoming)", "")
UNREAD = Observation("firewall", "nftables", None, "not permitted")


def test_the_first_firewall_of_the_nodes_concerned_is_named_with_its_remedy() -> None:
    answers = {"node1": [UNREAD], "node2": [UNREAD, UFW], "node3": [UFW]}
    assert firewall_of(answers, ["node1", "node2"]) == (
        "ufw on node2 (Default: deny (incoming))", "on node2: ufw allow from SUBNET",
    )  # fmt: skip
    assert firewall_of(answers, ["node1", "node9"]) is None


def test_only_a_blocked_path_is_explained_by_it() -> None:
    blocked = Finding("path_blocked", "critical", 0.9, "node1 does not reach node2", nodes=("node1", "node2"))
    slow = Finding("bandwidth_low", "warning", 0.9, "node1 to node2", nodes=("node1", "node2"))
    told = with_firewall(blocked, {"node2": [UFW]}, 5.0)
    assert told.advice == "A firewall is active there. on node2: ufw allow from SUBNET"
    assert told.evidence[-1].text == "ufw on node2 (Default: deny (incoming))"
    assert with_firewall(slow, {"node2": [UFW]}, 5.0) is slow
    assert with_firewall(blocked, {"node2": [UNREAD]}, 5.0) is blocked
