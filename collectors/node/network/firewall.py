"""What on this node may refuse or drop connections: firewalld, ufw, nftables, iptables, SELinux.

Each is asked by its own tool and read, never changed. Most need root: a tool that refuses is said to. firewalld and ufw
write rules of nftables or iptables, so they come first: they are what an administrator changes.
"""

from __future__ import annotations

import re
from typing import Iterator, List, Tuple

from collectors.node.child import find, run
from collectors.node.files import read_text, text
from collectors.node.source import Absent
from collectors.samples.asked import Observation

PATIENCE = 3.0
"""Seconds that one tool may take."""
SHOWN = 160
"""Characters of a rule."""
_SBIN = ("/usr/sbin", "/sbin")
_HOOK = re.compile(r"type filter hook (?:input|output)\b")
_NFT_DROPS = re.compile(r"\b(?:drop|reject)\b")
_IPTABLES_DROPS = re.compile(r"-P (?:INPUT|OUTPUT) DROP\Z|-A (?:INPUT|OUTPUT)\b.{0,500} -j (?:DROP|REJECT)\b")


def firewalls() -> List[Observation]:
    """One ``firewall`` a thing that is active here: its name, and in its own words what it does; none for none.

    The value is None, and the error says why, where a tool may not be read.
    """
    asked = (("firewalld", _firewalld), ("ufw", _ufw), ("nftables", _nftables), ("iptables", _iptables))
    found: List[Observation] = []
    for name, ask in asked:
        words, why = ask()
        if words or why:
            found.append(Observation("firewall", name, words[:SHOWN] if words else None, why))
    if read_text("/sys/fs/selinux/enforce") == "1":
        found.append(Observation("firewall", "SELinux", "enforcing", ""))
    by_nftables = any(one.subject == "nftables" for one in found)  # iptables shows the same rules once more
    return [one for one in found if not (one.subject == "iptables" and by_nftables)]


def _firewalld() -> Tuple[str, str]:
    if _said("firewall-cmd", "--state")[0].strip() != "running":
        return "", ""
    zone, why = _said("firewall-cmd", "--list-all")
    words = [" ".join(line.split()) for line in zone.splitlines()]
    kept = [line for line in words if line.startswith(("services:", "ports:", "sources:", "interfaces:"))]
    return "; ".join([*words[:1], *kept]) or "running", why


def _ufw() -> Tuple[str, str]:
    said, why = _said("ufw", "status", "verbose")
    lines = [line.strip() for line in said.splitlines()]
    if "Status: active" not in lines:
        return "", why
    return next((line for line in lines if line.startswith("Default:")), "active"), ""


def _nftables() -> Tuple[str, str]:
    said, why = _said("nft", "list", "ruleset")
    table, chain, filters = "", "", False
    for line in map(str.strip, said.splitlines()):
        if line.startswith("table "):
            table = line.rstrip(" {")
        elif line.startswith("chain "):
            chain, filters = line.rstrip(" {"), False
        filters = filters or _HOOK.search(line) is not None
        if filters and _NFT_DROPS.search(line) and not line.startswith("ct state invalid"):
            return "%s, %s: %s" % (table, chain, line), ""
    return "", why


def _iptables() -> Tuple[str, str]:
    said, why = _said("iptables", "-S")
    rules: Iterator[str] = map(str.strip, said.splitlines())
    rule = next((rule for rule in rules if _IPTABLES_DROPS.match(rule)), "")
    return rule, "" if rule else why


def _said(name: str, *words: str) -> Tuple[str, str]:
    """What a tool prints, and why it does not; both empty where it is not installed."""
    path = find(name, _SBIN)
    if path is None:
        return "", ""
    try:
        ended = run([path, *words], PATIENCE)
    except Absent as reason:
        return "", str(reason)
    if ended.status is None:
        return "", "%s gave no answer in %.0f s" % (name, PATIENCE)
    complaint = text(ended.stderr).strip().splitlines()
    return text(ended.stdout), complaint[-1][:SHOWN] if ended.status and complaint else ""
