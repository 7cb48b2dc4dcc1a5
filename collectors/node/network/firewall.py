"""Finds programs on this node that may refuse or drop connections: firewalld, ufw, nftables, iptables, SELinux.

Each is read through its own tool and never changed. Most tools need root; a refusal is reported. firewalld and ufw
generate the rules of nftables or iptables, so they come first: an administrator edits those.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Tuple

from collectors.node.child import output
from collectors.node.files import read_text
from collectors.node.source import Absent, NotResponding
from collectors.samples.probes import Observation

PATIENCE = 3.0
"""Seconds that one tool may take."""
SHOWN = 160
"""Characters shown of a rule."""
_HOOK = re.compile(r"type filter hook (?:input|output)\b")
_NFT_DROPS = re.compile(r"(?!ct state invalid).*\b(?:drop|reject)\b")
_IPTABLES_DROPS = re.compile(r"-P (?:INPUT|OUTPUT) DROP\Z|-A (?:INPUT|OUTPUT)\b.{0,500} -j (?:DROP|REJECT)\b")


def _zone(lines: List[str]) -> str:
    kept = [line for line in lines if line.startswith(("services:", "ports:", "sources:", "interfaces:"))]
    return "; ".join([*lines[:1], *kept])


def _default(lines: List[str]) -> str:
    default = next((line for line in lines if line.startswith("Default:")), "active")
    return default if "Status: active" in lines else ""


def _dropping_chain(lines: List[str]) -> str:
    table, chain, filters = "", "", False
    for line in lines:
        if line.startswith("table "):
            table = line.rstrip(" {")
        elif line.startswith("chain "):
            chain, filters = line.rstrip(" {"), False
        filters = filters or _HOOK.search(line) is not None
        if filters and _NFT_DROPS.match(line):
            return "%s, %s: %s" % (table, chain, line)
    return ""


def _dropping_rule(lines: List[str]) -> str:
    return next(filter(_IPTABLES_DROPS.match, lines), "")


FIREWALLS: Tuple[Tuple[str, Tuple[str, ...], Callable[[List[str]], str]], ...] = (
    ("firewalld", ("firewall-cmd", "--list-all"), _zone),
    ("ufw", ("ufw", "status", "verbose"), _default),
    ("nftables", ("nft", "list", "ruleset"), _dropping_chain),
    ("iptables", ("iptables", "-S"), _dropping_rule),
)
"""Name, command, and a function that extracts a rule (or a summary) from the output; empty if nothing is blocked."""


def firewalls() -> List[Observation]:
    """One observation ``firewall`` per active firewall: its name, and a rule or summary in the tool's own words.

    If a tool refuses to answer, the value is None and the error says why.
    """
    found: Dict[str, Observation] = {}
    for name, command, rule_of in FIREWALLS:
        if name == "iptables" and "nftables" in found:
            continue  # iptables shows the same rules again
        lines, why = _said(*command)
        rule = rule_of(lines)
        if rule or (why and "not running" not in why):
            found[name] = Observation("firewall", name, rule[:SHOWN] or None, "" if rule else why)
    if read_text("/sys/fs/selinux/enforce") == "1":
        found["SELinux"] = Observation("firewall", "SELinux", "enforcing", "")
    return list(found.values())


def _said(name: str, *words: str) -> Tuple[List[str], str]:
    """Lines that a tool prints, and its error; both empty if the tool is not installed."""
    try:
        printed, why = output(name, *words, seconds=PATIENCE)
    except Absent:
        return [], ""
    except NotResponding as reason:
        return [], str(reason)
    return [" ".join(line.split()) for line in printed.splitlines()], why[:SHOWN]
