"""The InfiniBand probe: ports by ibv_devinfo, bandwidth of every pair by perftest, ibping and ibtracert, on the nodes.

Formats: rdma-core's libibverbs/examples/devinfo.c; perftest's src/perftest_parameters.h (RESULT_FMT_G and REPORT_FMT).
What ibping and ibtracert print is shown as it is.
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
"""Beyond the seconds of sending."""
PINGS = 10
_FIELD = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$")
_RESULT = re.compile(r"^\s*\d{1,15}\s+\d{1,15}\s+[\d.]+\s+(\d{1,9}(?:\.\d{1,9})?)\s")


@dataclass(slots=True)
class FabricNode:
    """What a node has to measure with."""

    ports: list[IbPort] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    why: list[str] = field(default_factory=list)
    """What is not possible there, and why."""

    @property
    def active(self) -> IbPort | None:
        """The port to measure with: the first active one."""
        usable = (port for port in self.ports if port.state == "PORT_ACTIVE")
        return next(usable, None) if BANDWIDTH in self.tools else None


async def look(nodes: Sequence[NodeAccess]) -> dict[str, FabricNode]:
    """Ask every node which tools and ports it has. It only reads."""
    answers = await tools.look(nodes, TOOLS)

    async def one(node: NodeAccess) -> FabricNode:
        there = tools.found(answers[node.name])
        why = [one.error for one in answers[node.name] if one.name == "error"]
        found = FabricNode(tools=there, why=why or [f"{name}: not there" for name in TOOLS if name not in there])
        if "ibv_devinfo" in there:
            printed = await tools.run(node, ["ibv_devinfo"], LOOK_SECONDS)
            found.ports = parse_devinfo(node.name, str(printed.value or ""))
            if printed.error or not found.ports:
                found.why.append(f"ibv_devinfo: {printed.error or 'it lists no adapter'}")
        return found

    return dict(zip(answers, await asyncio.gather(*map(one, nodes)), strict=True))


def _perftest(port: IbPort, tcp_port: str, seconds: int, host: str = "") -> list[str]:
    """Perftest's words; without a host they are the server's. Both sides must agree on all but the host."""
    where = ["-d", port.device, "-i", str(port.port), "-p", tcp_port]
    return [BANDWIDTH, *where, "--report_gbits", "-F", "-D", str(seconds), *([host] if host else [])]


def _at(port: IbPort) -> list[str]:
    """Options of the infiniband-diags that name a local port."""
    return ["-C", port.device, "-P", str(port.port)]


def describe(looked: Mapping[str, FabricNode], seconds: int) -> list[str]:
    """The exact commands, with PORT for the free port that is taken and ADDRESS and LID for the other end's."""
    lines = []
    for name, one in sorted(looked.items()):
        if (port := one.active) is not None:
            lines.append(f"on {name}: {' '.join(_perftest(port, 'PORT', seconds, '[ADDRESS]'))}")
            if port.lid:
                at = " ".join(_at(port))
                lines.append(f"on {name}: ibping -S {at}; ibping -c {PINGS} -f {at} LID; ibtracert {at} {port.lid} LID")
    return lines


class FabricSurvey:
    """Measures pairs of the nodes that can take part; ``looked`` is what each has."""

    def __init__(self, nodes: Sequence[NodeAccess], looked: Mapping[str, FabricNode], seconds: int = 2) -> None:
        self.directions: dict[tuple[str, str], PathFigure] = {}
        """By source and target; the last measurement counts."""
        self.pairs: list[ProbePair] = []
        self._looked = looked
        self._able = {node.name: (node, port) for node in nodes if (port := looked[node.name].active)}
        self._seconds = seconds

    async def run(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Measure, no node in two pairs at once, both directions one after the other."""
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
    """What ibping and ibtracert print of one direction, and what was not possible."""
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
    """Every port of every adapter that ibv_devinfo lists; the LID of one that has none (RoCE) is 0."""
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
    """Average bytes a second of ib_write_bw; None where it printed no result."""
    _, heading, rows = printed.partition("BW average[Gb/sec]")
    found = next(filter(None, map(_RESULT.match, rows.splitlines())), None) if heading else None
    return float(found.group(1)) * 1e9 / 8 if found else None
