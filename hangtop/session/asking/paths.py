"""The path probe of a session: figures of every direction, what the nodes make of each other, and what both prove."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from collectors.probes.path.around import Around, look_around
from collectors.probes.path.survey import PathNode, survey
from collectors.samples.asked import PathFigure
from collectors.samples.probes import ProbeReport
from hangtop.diagnosis.addresses import chosen_interface
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import paths, surroundings
from hangtop.diagnosis.measured.surroundings import Surroundings
from hangtop.diagnosis.phrasing import count


@dataclass(frozen=True, slots=True)
class Ping:
    """ping's summary of one direction; None where there is none, with the reason."""

    a: str
    address: str
    sent: int | None
    received: int | None
    mean_ms: float | None
    error: str


@dataclass(frozen=True, slots=True)
class PathResult:
    """Everything that one run of the path probe brought."""

    figures: tuple[PathFigure, ...]
    report: ProbeReport
    seen: Surroundings
    interfaces: dict[str, tuple[str, str]]
    """Node → the interface that NCCL or gloo would choose there (empty: none fits), and the node's address."""
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> str:
        """``ok``, ``slow`` or ``failed``."""
        return surroundings.outcome(self.report, self.findings)

    @property
    def summary(self) -> str:
        """One line."""
        well = self.report.why or f"{count(len(self.report.pairs), 'pair')}, all well"
        if not self.findings:
            return well
        first = self.findings[0].summary
        return f"{well}; {first}" if self.outcome == "ok" else first

    def pings(self) -> list[Ping]:
        """What ping said, where it is installed."""
        rows = []
        for node, answers in sorted(self.seen.answers.items()):
            for one in answers:
                if one.name == "ping":
                    value = one.value if isinstance(one.value, list) and len(one.value) == 3 else [None] * 3
                    sent, received, mean = (item if isinstance(item, (int, float)) else None for item in value)
                    rows.append(Ping(node, one.subject, _whole(sent), _whole(received), mean, one.error))
        return rows


async def measure(
    job: Job,
    nodes: list[PathNode],
    absent: dict[str, str],
    *,
    seconds: float = 0.5,
    iperf: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> PathResult:
    """Measure between the nodes and ask each how it sees the others."""
    at, began = time.time(), time.monotonic()
    progress("names, routes and ping")
    places = [(node.name, node.transport, node.python, node.address) for node in nodes]
    around = await look_around(places, names_of(job))
    with_iperf = {node.name for node in nodes if iperf and around.has(node.name, "iperf3")}
    figures, failed = await survey(nodes, seconds=seconds, progress=progress, iperf=with_iperf)
    report = paths.report(figures, {**absent, **failed}, at, time.monotonic() - began)
    seen = _seen(job, nodes, around, at)
    chosen = {node.name: (chosen_interface(job, job.nodes[node.name]) or "", node.address) for node in nodes}
    found = (*paths.findings(figures, report), *surroundings.findings(seen))
    return PathResult(tuple(figures), report, seen, chosen, found)


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def names_of(job: Job) -> list[str]:
    """Names that the job's nodes are known by to each other: their own host names, and MASTER_ADDR."""
    own = {node.hello.hostname for node in job.nodes.values() if node.hello is not None and node.hello.hostname}
    return sorted(own | ({master} if (master := master_name(job)) else set()))


def master_name(job: Job) -> str:
    """MASTER_ADDR of the living ranks, where it is a name."""
    for rank in job.ranks:
        address = rank.process.master_addr
        if rank.gone_at is None and address and not _is_address(address):
            return address
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _seen(job: Job, nodes: list[PathNode], around: Around, at: float) -> Surroundings:
    held = {
        node.name: frozenset(
            address.partition("/")[0]
            for interface in job.nodes[node.name].network.interfaces
            for address in interface.addresses
        )
        for node in nodes
    }
    addresses = {node.name: node.address for node in nodes}
    return Surroundings(dict(around.answers), addresses, held, master_name(job), at)
