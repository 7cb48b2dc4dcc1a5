"""The InfiniBand probe: ports by ibv_devinfo, bandwidth of every pair by perftest, ibping and ibtracert, on the nodes.

Formats: rdma-core's libibverbs/examples/devinfo.c; perftest's src/perftest_parameters.h (RESULT_FMT_G and REPORT_FMT:
the unit stands in the heading, figures below it). What ibping and ibtracert print is shown as it is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collectors.probes import tools
from collectors.probes.path import rounds
from collectors.probes.running import NodeAccess

BANDWIDTH_TOOLS = ("ib_write_bw", "ib_send_bw")
"""Of perftest, the first that both ends have."""
TOOLS = ("ibv_devinfo", *BANDWIDTH_TOOLS, "ibping", "ibtracert")
LOOK_SECONDS, TOOL_SECONDS = 10.0, 15.0
SLACK_SECONDS = 20.0
"""Beyond the seconds of sending."""
PINGS = 10
_FIELD = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$")
_BANDWIDTH = re.compile(r"^\s*\d{1,15}\s+\d{1,15}\s+[\d.]+\s+(\d{1,9}(?:\.\d{1,9})?)\s")
_UNITS = {"MiB/sec": 8 * 1.048576e-3, "MB/sec": 8 * 1.048576e-3, "Gb/sec": 1.0}
"""To Gb/s. perftest's MB are 2**20 bytes: older releases say MB/sec, newer MiB/sec for the same figure."""


@dataclass(frozen=True, slots=True)
class IbPort:
    """One port as ibv_devinfo shows it."""

    device: str
    port: int
    state: str
    """``PORT_ACTIVE``, ``PORT_INIT``, ``PORT_ARMED``, ``PORT_DOWN``."""
    max_mtu: int | None
    active_mtu: int | None
    lid: int | None
    link_layer: str
    """``InfiniBand`` or ``Ethernet`` (RoCE)."""

    @property
    def name(self) -> str:
        """``mlx5_0/1``."""
        return f"{self.device}/{self.port}"


@dataclass(slots=True)
class FabricNode:
    """What a node has to measure with."""

    ports: list[IbPort] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    why: list[str] = field(default_factory=list)
    """What is not possible there, and why."""

    def active(self, device: str = "") -> IbPort | None:
        """The port to measure with: the first active one, of the device if one is named."""
        usable = (port for port in self.ports if port.state == "PORT_ACTIVE" and device in ("", port.device))
        return next(usable, None)


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction between two nodes; None is "not measured"."""

    a: str
    b: str
    ports: tuple[str, str]
    """``mlx5_0/1`` at either end."""
    tool: str
    gbits: float | None
    error: str
    """Why there is no bandwidth."""
    ping: tuple[str, ...] = ()
    """ibping's summary."""
    hops: tuple[str, ...] = ()
    """ibtracert: every port on the way."""
    notes: tuple[str, ...] = ()
    """What was not possible, and why."""


async def look(nodes: Sequence[NodeAccess]) -> dict[str, FabricNode]:
    """Ask every node which tools and ports it has. It only reads."""
    answers = await tools.look(nodes, TOOLS)

    async def one(node: NodeAccess) -> FabricNode:
        there = tools.found(answers[node.name])
        found = FabricNode(tools=there, why=[one.error for one in answers[node.name] if one.name == "error"])
        found.why += [f"{name}: not there" for name in TOOLS if name not in there and not found.why]
        if "ibv_devinfo" in there:
            printed = await tools.run(node, ["ibv_devinfo"], LOOK_SECONDS)
            found.ports = parse_devinfo(str(printed.value or ""))
            found.why += [f"ibv_devinfo: {printed.error}"] if printed.error else []
            found.why += [] if found.ports or printed.error else ["ibv_devinfo lists no adapter"]
        return found

    return dict(zip(answers, await asyncio.gather(*map(one, nodes)), strict=True))


def pairs(looked: Mapping[str, FabricNode], device: str = "") -> list[list[tuple[str, str]]]:
    """Rounds of pairs that can be measured: both have an active port and one of perftest's tools."""
    able = sorted(name for name, one in looked.items() if one.active(device) and one.tools & set(BANDWIDTH_TOOLS))
    return rounds(able) if len(able) > 1 else []


def _bandwidth_words(tool: str, port: IbPort, tcp_port: str, seconds: int, host: str = "") -> list[str]:
    """Perftest's words; without a host they are the server's. Both sides must agree on all but the host."""
    words = [tool, "-d", port.device, "-i", str(port.port), "-p", tcp_port, "--report_gbits", "-F", "-D", str(seconds)]
    return [*words, host] if host else words


def _at(port: IbPort) -> list[str]:
    """Options of the infiniband-diags that name a local port."""
    return ["-C", port.device, "-P", str(port.port)]


def describe(looked: Mapping[str, FabricNode], device: str, seconds: int) -> list[str]:
    """The exact commands, with PORT for the free port that is taken and ADDRESS and LID for the other end's."""
    lines = []
    for name, one in sorted(looked.items()):
        port = one.active(device)
        tool = next((tool for tool in BANDWIDTH_TOOLS if tool in one.tools), "")
        if port is not None and tool:
            lines.append(f"on {name}: {' '.join(_bandwidth_words(tool, port, 'PORT', seconds, '[ADDRESS]'))}")
            if port.link_layer == "InfiniBand":
                at = " ".join(_at(port))
                lines.append(f"on {name}: ibping -S {at}; ibping -c {PINGS} -f {at} LID; ibtracert {at} {port.lid} LID")
    return lines


async def survey(
    nodes: Sequence[NodeAccess],
    looked: Mapping[str, FabricNode],
    *,
    device: str = "",
    seconds: int = 2,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Direction]:
    """Measure every pair that can be, nobody in two at once, both directions one after the other."""
    by_name = {node.name: node for node in nodes}

    async def both(a: str, b: str) -> list[Direction]:
        ways = ((by_name[a], by_name[b]), (by_name[b], by_name[a]))
        return [await _direction(source, target, looked, device, seconds) for source, target in ways]

    found: list[Direction] = []
    plan = pairs(looked, device)
    for number, some in enumerate(plan, start=1):
        progress(f"InfiniBand, round {number} of {len(plan)}")
        for measured in await asyncio.gather(*(both(a, b) for a, b in some)):
            found += measured
    return found


async def _direction(
    source: NodeAccess, target: NodeAccess, looked: Mapping[str, FabricNode], device: str, seconds: int
) -> Direction:
    here, there = looked[source.name].active(device), looked[target.name].active(device)
    assert here is not None
    assert there is not None
    common = looked[source.name].tools & looked[target.name].tools
    tool = next((name for name in BANDWIDTH_TOOLS if name in common), "")
    found = Direction(source.name, target.name, (here.name, there.name), tool, None, "no tool of perftest in common")
    if tool:
        result = await tools.run_against(
            source, target, _bandwidth_words(tool, there, "{port}", seconds),
            lambda port: _bandwidth_words(tool, here, str(port), seconds, target.address), seconds + SLACK_SECONDS,
        )  # fmt: skip
        gbits = parse_bandwidth(str(result.value or ""))
        found = replace(found, gbits=gbits, error="" if gbits else result.error or "it printed no result")
    if here.link_layer != "InfiniBand" or there.link_layer != "InfiniBand" or not (here.lid and there.lid):
        return replace(found, notes=("ibping and ibtracert need InfiniBand links with a LID at both ends",))
    notes: list[str] = []
    if "ibping" in common:
        words = ["ibping", "-c", str(PINGS), "-f", *_at(here), str(there.lid)]
        result = await tools.run_against(source, target, ["ibping", "-S", *_at(there)], lambda _: words, TOOL_SECONDS)
        printed = str(result.value or "").splitlines()
        found = replace(found, ping=tuple(line for line in printed if "transmitted" in line or "min/avg/max" in line))
        notes += [f"ibping: {result.error}"] if result.error else []
    if "ibtracert" in common:
        result = await tools.run(source, ["ibtracert", *_at(here), str(here.lid), str(there.lid)], TOOL_SECONDS)
        printed = str(result.value or "").splitlines()
        found = replace(found, hops=tuple(line for line in printed if line.startswith("[")))
        notes += [f"ibtracert: {result.error}"] if result.error else []
    return replace(found, notes=tuple(notes))


def parse_devinfo(printed: str) -> list[IbPort]:
    """Every port of every adapter that ibv_devinfo lists."""
    found: list[dict[str, str]] = []
    device = ""
    for line in printed.splitlines():
        match = _FIELD.match(line)
        if match is None:
            continue
        name, value = match.groups()
        if name == "hca_id":
            device = value
        elif name == "port":
            found.append({"device": device, "port": value})
        elif found and found[-1]["device"] == device:
            found[-1][name] = value
    return [
        IbPort(
            port["device"], _number(port, "port") or 0, port.get("state", "").partition(" ")[0],
            _number(port, "max_mtu"), _number(port, "active_mtu"), _number(port, "port_lid"),
            port.get("link_layer", ""),
        )
        for port in found
        if port["device"]
    ]  # fmt: skip


def _number(fields: Mapping[str, str], name: str) -> int | None:
    word = fields.get(name, "").partition(" ")[0]
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None


def parse_bandwidth(printed: str) -> float | None:
    """Average Gb/s of ib_write_bw or ib_send_bw; None where it printed no result."""
    factor: float | None = None
    for line in printed.splitlines():
        if "#bytes" in line:
            units = re.findall(r"\[([^\[\]]{1,40})\]", line)  # the heading's second unit is the average's
            factor = _UNITS.get(units[1]) if len(units) > 1 else None
        elif factor is not None and (row := _BANDWIDTH.match(line)):
            return float(row.group(1)) * factor
    return None
