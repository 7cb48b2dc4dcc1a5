"""What on this node may refuse or drop connections: firewalld, ufw, nftables, iptables, SELinux.

Each is asked by its own tool and read, never changed. Most need root: a tool that refuses is said to. firewalld and ufw
write rules of nftables or iptables, so they come first: they are what an administrator changes.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, List, Optional, Tuple

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
    found = [observation for ask in _ASKED for observation in ask()]
    by_iptables = any(one.subject == "nftables" for one in found)  # the same rules once more
    return [one for one in found if not (one.subject == "iptables" and by_iptables)]


def _firewalld() -> Iterator[Observation]:
    said, _ = _said("firewall-cmd", "--state")
    if said.strip() == "running":
        zone, why = _said("firewall-cmd", "--list-all")
        words = [" ".join(line.split()) for line in zone.splitlines()]
        kept = [line for line in words if line.startswith(("services:", "ports:", "sources:", "interfaces:"))]
        yield _told("firewalld", "; ".join([*words[:1], *kept]) or "running", why)


def _ufw() -> Iterator[Observation]:
    said, why = _said("ufw", "status", "verbose")
    lines = [line.strip() for line in said.splitlines()]
    if "Status: active" in lines:
        yield _told("ufw", next((line for line in lines if line.startswith("Default:")), "active"))
    elif why:
        yield Observation("firewall", "ufw", None, why)


def _nftables() -> Iterator[Observation]:
    said, why = _said("nft", "list", "ruleset")
    table, chain, filters = "", "", False
    for line in map(str.strip, said.splitlines()):
        if line.startswith("table "):
            table = line.rstrip(" {")
        elif line.startswith("chain "):
            chain, filters = line.rstrip(" {"), False
        elif _HOOK.search(line):
            filters = True
        if filters and _NFT_DROPS.search(line) and not line.startswith("ct state invalid"):
            yield _told("nftables", "%s, %s: %s" % (table, chain, line))
            return
    if why:
        yield Observation("firewall", "nftables", None, why)


def _iptables() -> Iterator[Observation]:
    said, why = _said("iptables", "-S")
    for line in said.splitlines():
        if _IPTABLES_DROPS.match(line.strip()):
            yield _told("iptables", line.strip())
            return
    if why:
        yield Observation("firewall", "iptables", None, why)


def _selinux() -> Iterator[Observation]:
    if (read_text("/sys/fs/selinux/enforce") or "").strip() == "1":
        yield _told("SELinux", "enforcing")


_ASKED: Tuple[Callable[[], Iterator[Observation]], ...] = (_firewalld, _ufw, _nftables, _iptables, _selinux)


def _told(name: str, words: str, why: str = "") -> Observation:
    return Observation("firewall", name, words[:SHOWN], why)


def _said(name: str, *words: str) -> Tuple[str, str]:
    """What a tool prints, and why it does not; both empty where it is not installed."""
    path: Optional[str] = find(name, _SBIN)
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
