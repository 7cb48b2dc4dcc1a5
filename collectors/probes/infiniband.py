"""The InfiniBand probe: ibv_devinfo on every node, then ib_write_bw, ibping and ibtracert between pairs of nodes.

Formats: rdma-core's libibverbs/examples/devinfo.c; perftest's src/perftest_parameters.h (RESULT_FMT_G and REPORT_FMT).
The output of ibping and ibtracert is shown unparsed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.probes import tools
from collectors.probes.pairs import Bisection, pair_of
from collectors.probes.running import NodeAccess
from collectors.samples.probes import IbPort, PathFigure, ProbePair

BANDWIDTH = "ib_write_bw"
TOOLS = ("ibv_devinfo", BANDWIDTH, "ibping", "ibtracert")
LOOK_SECONDS, TOOL_SECONDS = 10.0, 15.0
SLACK_SECONDS = 20.0
"""Seconds on top of the time of sending."""
PINGS = 10
_FIELD = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$")
_RESULT = re.compile(r"^\s*\d{1,15}\s+\d{1,15}\s+[\d.]+\s+(\d{1,9}(?:\.\d{1,9})?)\s")


@dataclass(slots=True)
class FabricNode:
    """Ports and tools of a node."""

    ports: list[IbPort] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    why: list[str] = field(default_factory=list)
    """What the node cannot measure, with the reason."""

    @property
    def active(self) -> IbPort | None:
        """The port to measure with: the first active port; None without ib_write_bw."""
        usable = (port for port in self.ports if port.state == "PORT_ACTIVE")
        return next(usable, None) if BANDWIDTH in self.tools else None


async def look(nodes: Sequence[NodeAccess]) -> dict[str, FabricNode]:
    """Ask every node for its tools and ports; nothing is changed there."""
    answers = await tools.look(nodes, TOOLS)

    async def ask(node: NodeAccess) -> FabricNode:
        there = tools.found(answers[node.name])
        why = [answer.error for answer in answers[node.name] if answer.name == "error"]
        found = FabricNode(tools=there, why=why or [f"{name}: not there" for name in TOOLS if name not in there])
        if "ibv_devinfo" in there:
            printed = await tools.run(node, ["ibv_devinfo"], LOOK_SECONDS)
            found.ports = parse_devinfo(node.name, str(printed.value or ""))
            if printed.error or not found.ports:
                found.why.append(f"ibv_devinfo: {printed.error or 'it lists no adapter'}")
        return found

    return dict(zip(answers, await asyncio.gather(*map(ask, nodes)), strict=True))


def _perftest(port: IbPort, tcp_port: str, seconds: int, host: str = "") -> list[str]:
    """Command of perftest: the client's with a host, else the server's. All other options must be equal."""
    where = ["-d", port.device, "-i", str(port.port), "-p", tcp_port]
    return [BANDWIDTH, *where, "--report_gbits", "-F", "-D", str(seconds), *([host] if host else [])]


def _at(port: IbPort) -> list[str]:
    """Options of infiniband-diags for a local port."""
    return ["-C", port.device, "-P", str(port.port)]


def describe(looked: Mapping[str, FabricNode], seconds: int) -> list[str]:
    """The exact commands, with PORT for a free port, and ADDRESS and LID for those of the far end."""
    lines = []
    for name, node in sorted(looked.items()):
        if (port := node.active) is not None:
            lines.append(f"on {name}: {' '.join(_perftest(port, 'PORT', seconds, '[ADDRESS]'))}")
            if port.lid:
                at = " ".join(_at(port))
                lines.append(f"on {name}: ibping -S {at}; ibping -c {PINGS} -f {at} LID; ibtracert {at} {port.lid} LID")
    return lines


class FabricSurvey:
    """Measures pairs of the nodes that can take part; ``looked``: ports and tools of each node."""

    def __init__(self, nodes: Sequence[NodeAccess], looked: Mapping[str, FabricNode], seconds: int = 2) -> None:
        self.directions: dict[tuple[str, str], PathFigure] = {}
        """By (source, target); the last measurement counts."""
        self.pairs: list[ProbePair] = []
        self._looked = looked
        self._able = {node.name: (node, port) for node in nodes if (port := looked[node.name].active)}
        self._seconds = seconds

    async def run(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Measure with each node in one pair at a time, and one direction after the other."""
        bisection = Bisection(self._pair, progress)
        if len(self._able) > 1:
            await bisection.run(tuple(sorted(self._able)))
        self.pairs = sorted(bisection.pairs.values())

    async def _pair(self, a: str, b: str) -> ProbePair:
        there = self.directions[a, b] = await self._one_way(a, b)
        back = self.directions[b, a] = await self._one_way(b, a)
        return pair_of(there, back)

    async def _one_way(self, source: str, target: str) -> PathFigure:
        (node, here), (other, there) = self._able[source], self._able[target]
        result = await tools.run_against(
            node, other, _perftest(there, "{port}", self._seconds),
            lambda port: _perftest(here, str(port), self._seconds, other.address), self._seconds + SLACK_SECONDS,
        )  # fmt: skip
        rate = parse_bandwidth(str(result.value or ""))
        error = "" if rate else result.error or "it printed no result"
        ends = self._looked[source], self._looked[target]
        shown, notes = await _diagnosed(node, here, other, there, ends[0].tools & ends[1].tools)
        for end in ends:
            end.why += notes
        return PathFigure(source, target, throughput=rate, error=error, method=BANDWIDTH, shown=shown)


async def _diagnosed(
    node: NodeAccess, here: IbPort, other: NodeAccess, there: IbPort, common: set[str]
) -> tuple[list[str], list[str]]:
    """Output lines of ibping and ibtracert for one direction, and notes on what was not possible."""
    if not (here.lid and there.lid):
        return [], ["ibping and ibtracert need InfiniBand links with a LID at both ends"]
    shown, results = [], {}
    if "ibping" in common:
        words = ["ibping", "-c", str(PINGS), "-f", *_at(here), str(there.lid)]
        server = ["ibping", "-S", *_at(there)]
        results["ibping"] = await tools.run_against(node, other, server, lambda _: words, TOOL_SECONDS)
    if "ibtracert" in common:
        words = ["ibtracert", *_at(here), str(here.lid), str(there.lid)]
        results["ibtracert"] = await tools.run(node, words, TOOL_SECONDS)
    for result in results.values():
        printed = str(result.value or "").splitlines()
        shown += [line for line in printed if "transmitted" in line or "min/avg/max" in line or line.startswith("[")]
    return shown, [f"{name}: {result.error}" for name, result in results.items() if result.error]


def parse_devinfo(node: str, printed: str) -> list[IbPort]:
    """Every port of every adapter that ibv_devinfo lists; a port without a LID (RoCE) has LID 0."""
    found: list[dict[str, str]] = []
    device = ""
    for match in filter(None, map(_FIELD.match, printed.splitlines())):
        name, value = match.groups()
        if name == "hca_id":
            device = value
        elif name == "port" and device:
            found.append({"device": device, "port": value})
        elif found and found[-1]["device"] == device:
            found[-1][name] = value
    return [
        IbPort(
            node, port["device"], _number(port, "port"), port.get("state", "").partition(" ")[0],
            _number(port, "max_mtu"), _number(port, "active_mtu"), port.get("link_layer", ""),
            _number(port, "port_lid") if port.get("link_layer") == "InfiniBand" else 0,
        )
        for port in found
    ]  # fmt: skip


def _number(fields: Mapping[str, str], name: str) -> int:
    word = fields.get(name, "").partition(" ")[0]
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0


def parse_bandwidth(printed: str) -> float | None:
    """Average bytes per second of ib_write_bw; None if it printed no result."""
    _, heading, rows = printed.partition("BW average[Gb/sec]")
    found = next(filter(None, map(_RESULT.match, rows.splitlines())), None) if heading else None
    return float(found.group(1)) * 1e9 / 8 if found else None
