"""What the nodes take each other's names for: a name that means different addresses keeps ranks from meeting.

Needs the answers of the path probe (``collectors.probes.path.remote.around``), by node.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.samples.asked import Observation
from collectors.samples.probes import ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.measured import probes
from hangtop.diagnosis.phrasing import listed


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """What every node said of every name."""

    answers: Mapping[str, Sequence[Observation]]
    held: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Node → all addresses of its interfaces."""
    master: str = ""
    """MASTER_ADDR, where it is a name."""
    at: float = 0.0

    def owner(self, name: str) -> str:
        """Node whose own host name this is; empty where it is nobody's."""
        owners = (
            node
            for node, answers in self.answers.items()
            if any((one.name, one.subject) == ("own_name", name) for one in answers)
        )
        return next(owners, "")

    def rows(self) -> Iterator[tuple[str, Observation]]:
        """(node, what it takes a name for), node by node."""
        for node, answers in sorted(self.answers.items()):
            yield from ((node, one) for one in answers if one.name == "resolve")

    def addresses(self, node: str, name: str) -> frozenset[str]:
        """Addresses that a node resolves a name to."""
        found = (one.value for of, one in self.rows() if (of, one.subject) == (node, name))
        value = next(found, None)
        return frozenset(map(str, value)) if isinstance(value, list) else frozenset()


def outcome(report: ProbeReport, found: Iterable[Finding]) -> str:
    """The path probe's word: a name is a failure only where the ranks' meeting depends on it."""
    found = list(found)
    if any(finding.kind == "name_mismatch" and finding.severity == "critical" for finding in found):
        return "failed"
    return probes.outcome(report, [finding for finding in found if finding.kind != "name_mismatch"])


def name_mismatch(seen: ResolvedNames) -> Iterator[Finding]:
    """name_mismatch: a name that a node takes for itself, for an address that is not its owner's, or not at all."""
    for name in sorted({one.subject for _, one in seen.rows()}):
        owner, is_master = seen.owner(name), name == seen.master
        said = {node: seen.addresses(node, name) for node in sorted(seen.answers) if node != owner}
        right = _right(said, seen.held.get(owner, frozenset()))
        loops = [node for node, found in said.items() if _only_loopback(found)]
        odd = [node for node, found in said.items() if node not in loops and found and right and not found & right]
        # Host names need not resolve; one that some nodes resolve, or at which the ranks shall meet, must everywhere.
        silent = [node for node, found in said.items() if not found] if any(said.values()) or is_master else []
        own_loop = bool(owner) and len(seen.answers) > 1 and _only_loopback(seen.addresses(owner, name))
        parts = [
            f"{listed(loops)} takes it for itself ({listed(sorted(said[loops[0]]))})" if loops else "",
            f"{listed(odd)} resolves it to {listed(sorted(said[odd[0]]))}, not {listed(sorted(right))}" if odd else "",
            f"{listed(silent)} does not resolve it" if silent else "",
            f"{owner} itself resolves it to loopback alone: gloo without GLOO_SOCKET_IFNAME listens there"
            if own_loop else "",
        ]  # fmt: skip
        bad = tuple(sorted({*loops, *odd, *silent, *([owner] if own_loop else [])}))
        if not bad:
            continue
        yield Finding(
            "name_mismatch",
            "critical" if is_master and (loops or odd or silent) else "warning",
            0.9 if loops or odd else 0.7,
            f"nodes disagree about {name}{' (MASTER_ADDR)' if is_master else ''}: {'; '.join(filter(None, parts))}",
            nodes=bad,
            evidence=tuple(
                Evidence(f"name service of {node}", seen.at, f"{name} is {listed(sorted(found)) or 'not resolved'}")
                for node in bad[:6]
                for found in [seen.addresses(node, name)]
            ),
            advice=f"Make all nodes mean the same by {name}: one line in /etc/hosts everywhere, or DNS; or give "
            "addresses to MASTER_ADDR and the rendezvous.",
        )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _only_loopback(found: frozenset[str]) -> bool:
    return bool(found) and all(map(_is_loopback, found))


def _right(said: Mapping[str, frozenset[str]], held: frozenset[str]) -> frozenset[str]:
    """The right answer: what the name's owner holds, where that is known, else what most nodes say."""
    answers = [found for found in said.values() if found and not _only_loopback(found)]
    real = frozenset(address for address in held if not _is_loopback(address))
    if real and any(found & real for found in answers):
        return real
    most = Counter(answers).most_common(1)
    return most[0][0] if most and (most[0][1] > 1 or len(answers) == 1 < len(said)) else real
