"""What on this node may refuse or drop connections: firewalld, ufw, nftables, iptables, SELinux.

Each is asked by its own tool and read, never changed. Most need root: a tool that refuses is said to. firewalld and ufw
write rules of nftables or iptables, so they come first: they are what an administrator changes.
"""

from __future__ import annotations

import re
from typing import Callable, List, NamedTuple, Tuple

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
        if filters and _NFT_DROPS.search(line) and not line.startswith("ct state invalid"):
            return "%s, %s: %s" % (table, chain, line)
    return ""


def _dropping_rule(lines: List[str]) -> str:
    return next(filter(_IPTABLES_DROPS.match, lines), "")


class Firewall(NamedTuple):
    """One kind of firewall, and how it is asked."""

    name: str
    command: Tuple[str, ...]
    rule: Callable[[List[str]], str]
    """What it does, in its own words, out of the lines that the command prints; empty for nothing."""


FIREWALLS = (
    Firewall("firewalld", ("firewall-cmd", "--list-all"), _zone),
    Firewall("ufw", ("ufw", "status", "verbose"), _default),
    Firewall("nftables", ("nft", "list", "ruleset"), _dropping_chain),
    Firewall("iptables", ("iptables", "-S"), _dropping_rule),
)


def firewalls() -> List[Observation]:
    """One ``firewall`` a thing that is active here: its name, and in its own words what it does; none for none.

    The value is None, and the error says why, where a tool may not be read.
    """
    found: List[Observation] = []
    for one in FIREWALLS:
        lines, why = _said(*one.command)
        rule = one.rule(lines)
        if rule or (why and "not running" not in why):
            found.append(Observation("firewall", one.name, rule[:SHOWN] or None, "" if rule else why))
    if read_text("/sys/fs/selinux/enforce") == "1":
        found.append(Observation("firewall", "SELinux", "enforcing", ""))
    by_nftables = any(one.subject == "nftables" for one in found)  # iptables shows the same rules once more
    return [one for one in found if not (one.subject == "iptables" and by_nftables)]


def _said(name: str, *words: str) -> Tuple[List[str], str]:
    """Lines that a tool prints, and why it does not; both empty where it is not installed."""
    path = find(name, _SBIN)
    try:
        ended = run([path, *words], PATIENCE) if path is not None else None
    except Absent as reason:
        return [], str(reason)
    if ended is None or ended.status is None:
        return [], "%s gave no answer in %.0f s" % (name, PATIENCE) if ended is not None else ""
    complaint = text(ended.stderr).strip().splitlines()
    why = complaint[-1][:SHOWN] if ended.status and complaint else ""
    return [" ".join(line.split()) for line in text(ended.stdout).splitlines()], why
