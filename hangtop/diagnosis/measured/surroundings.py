"""How the nodes see each other, judged: names that mean different things, routes that differ on the way back.

Needs the answers of the path probe's questions (``collectors.probes.path.remote.around``), by node.
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
class Surroundings:
    """What every node said of every other."""

    answers: Mapping[str, Sequence[Observation]]
    addresses: Mapping[str, str]
    """Node → address at which the job's network reaches it."""
    held: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Node → all addresses of its interfaces."""
    master: str = ""
    """MASTER_ADDR, where it is a name."""
    at: float = 0.0

    def value(self, node: str, name: str, subject: str) -> list[object] | None:
        """Value of one answer; None where there is none."""
        for one in self.answers.get(node, ()):
            if one.name == name and one.subject == subject and isinstance(one.value, list):
                return list(one.value)
        return None

    def owner(self, name: str) -> str:
        """Node whose own host name this is; empty where it is nobody's."""
        for node, answers in self.answers.items():
            if any(one.name == "own_name" and one.subject == name for one in answers):
                return node
        return ""

    def names(self) -> list[str]:
        """Every name that some node was asked for."""
        return sorted({one.subject for answers in self.answers.values() for one in answers if one.name == "resolve"})

    def meaning(self, node: str, name: str) -> frozenset[str]:
        """Addresses that a node resolves a name to."""
        return frozenset(str(address) for address in (self.value(node, "resolve", name) or [0])[1:])


@dataclass(frozen=True, slots=True)
class Route:
    """Both directions between two nodes: (interface, gateway, source address) as each kernel chose."""

    a: str
    b: str
    there: tuple[str, str, str]
    back: tuple[str, str, str]
    why: str
    """How the two differ; empty where they mirror each other."""


def findings(seen: Surroundings) -> list[Finding]:
    """Everything that is wrong, worst first."""
    return [*_names(seen), *_routes(seen)]


def outcome(report: ProbeReport, found: Iterable[Finding]) -> str:
    """The path probe's word: a name or a route is a failure only where the ranks' meeting depends on it."""
    found = list(found)
    if any(finding.kind == "name_mismatch" and finding.severity == "critical" for finding in found):
        return "failed"
    return probes.outcome(report, [f for f in found if f.kind not in {"name_mismatch", "asymmetric_route"}])


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _names(seen: Surroundings) -> Iterator[Finding]:
    """name_mismatch: a name that a node takes for itself, for an address that is not its owner's, or not at all."""
    for name in seen.names():
        owner = seen.owner(name)
        said = {node: seen.meaning(node, name) for node in sorted(seen.answers) if node != owner}
        usual = _usual(said, seen.held.get(owner, frozenset()))
        loops = [node for node, found in said.items() if found and all(map(_loopback, found))]
        own_loop = bool(owner) and _only_loopback(seen.meaning(owner, name))
        odd = [node for node, found in said.items() if node not in loops and found and usual and not found & usual]
        # Host names need not resolve; one that some resolve, or at which the ranks shall meet, must everywhere.
        needed = any(said.values()) or name == seen.master
        silent = [node for node, found in said.items() if not found and needed]
        parts = [
            f"{listed(loops)} takes it for itself ({listed(sorted(said[loops[0]]))})" if loops else "",
            f"{listed(odd)} resolves it to {listed(sorted(said[odd[0]]))}, not {listed(sorted(usual))}" if odd else "",
            f"{listed(silent)} does not resolve it" if silent else "",
            f"{owner} itself resolves it to loopback alone: gloo without GLOO_SOCKET_IFNAME listens there"
            if own_loop and len(seen.answers) > 1 else "",
        ]  # fmt: skip
        parts = [part for part in parts if part]
        if not parts:
            continue
        is_master = name == seen.master
        bad = tuple(sorted({*loops, *odd, *silent, *([owner] if own_loop else [])}))
        what = f"{name} (MASTER_ADDR)" if is_master else name
        yield Finding(
            "name_mismatch",
            "critical" if is_master and (loops or odd or silent) else "warning",
            0.9 if loops or odd else 0.7,
            f"nodes disagree about {what}: {'; '.join(parts)}",
            nodes=bad,
            evidence=tuple(Evidence(f"name service of {node}", seen.at, _proof(seen, node, name)) for node in bad[:6]),
            advice=f"Make all nodes mean the same by {name}: one line in /etc/hosts everywhere, or DNS; or give "
            "addresses to MASTER_ADDR and the rendezvous.",
        )


def _only_loopback(found: frozenset[str]) -> bool:
    return bool(found) and all(map(_loopback, found))


def _usual(said: Mapping[str, frozenset[str]], held: frozenset[str]) -> frozenset[str]:
    """The right answer: what its owner's interfaces hold, where that is known, else what most say."""
    answers = [found for found in said.values() if found and not all(map(_loopback, found))]
    real = frozenset(address for address in held if not _loopback(address))
    if real and any(found & real for found in answers):
        return real
    most = Counter(answers).most_common(1)
    return most[0][0] if most and (most[0][1] > 1 or len(answers) == 1 < len(said)) else real


def _proof(seen: Surroundings, node: str, name: str) -> str:
    found = sorted(seen.meaning(node, name))
    lines = seen.value(node, "hosts", name) or []
    error = next((o.error for o in seen.answers[node] if (o.name, o.subject) == ("resolve", name)), "")
    told = f"{name} is {listed(found)}" if found else f"{name}: {error or 'no answer'}"
    return told + (f"; /etc/hosts says {listed([str(line) for line in lines])}" if lines else "")


def routes(seen: Surroundings) -> list[Route]:
    """Both directions of every pair of which both kernels told."""
    found = []
    names = sorted(seen.addresses)
    for place, a in enumerate(names):
        for b in names[place + 1 :]:
            there, back = _route(seen, a, b), _route(seen, b, a)
            if there and back:
                found.append(Route(a, b, there, back, _difference(seen, a, b, there, back)))
    return found


def _route(seen: Surroundings, a: str, b: str) -> tuple[str, str, str] | None:
    value = seen.value(a, "route", seen.addresses[b])
    return None if value is None or len(value) != 3 else (str(value[0]), str(value[1]), str(value[2]))


def _difference(seen: Surroundings, a: str, b: str, there: tuple[str, str, str], back: tuple[str, str, str]) -> str:
    """How two directions differ: another source than the address that the peer sends to, or a gateway one way only."""
    parts = []
    for node, (device, _, source) in ((a, there), (b, back)):
        if source and source != seen.addresses[node] and "." in source and "." in seen.addresses[node]:
            parts.append(f"{node} sends from {source} ({device}), but is sent to at {seen.addresses[node]}")
    gateways = {bool(via) for _, via, _ in (there, back) if via != "?"}
    if len(gateways) > 1:
        (node, via, other) = (a, there[1], b) if there[1] else (b, back[1], a)
        parts.append(f"{node} goes through {via}, {other} directly")
    return "; ".join(parts)


def _routes(seen: Surroundings) -> Iterator[Finding]:
    """asymmetric_route: the way back is another than the way there (reverse path filters and firewalls drop that)."""
    crooked = [route for route in routes(seen) if route.why]
    if not crooked:
        return
    involved = Counter(name for route in crooked for name in (route.a, route.b))
    most = max(involved.values())
    culprits = tuple(sorted(name for name, count in involved.items() if count == most))
    yield Finding(
        "asymmetric_route",
        "warning",
        0.75,
        f"the way back differs from the way there: {crooked[0].why}",
        nodes=culprits,
        evidence=tuple(
            Evidence("ip route get", seen.at, f"{r.a} to {r.b}: {_told(r.there)}; back: {_told(r.back)}")
            for r in crooked[:6]
        ),
        advice="Packets that come in by one interface and are answered by another are dropped by reverse path filters "
        "(net.ipv4.conf.*.rp_filter=1) and stateful firewalls. Mend the routes, or set NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME to the interface that both directions use.",
    )


def _told(route: tuple[str, str, str]) -> str:
    device, via, source = route
    return f"dev {device or '?'}{f' via {via}' if via and via != '?' else ''} src {source or '?'}"
