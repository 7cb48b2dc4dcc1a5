"""The InfiniBand probe: what ports the nodes have, then perftest, ibping and ibtracert between pairs of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from collectors.fleet import payload
from collectors.fleet.transport import TransportError
from collectors.probes.decoding import answer
from collectors.probes.infiniband.remote.read import IbPort
from collectors.probes.path.around import ask
from collectors.probes.path.survey import PathNode, rounds
from collectors.probes.running import Running
from collectors.samples.asked import Observation

ENTRY = "collectors.probes.infiniband.remote.tools"
BANDWIDTH_TOOLS = ("ib_write_bw", "ib_send_bw")
PINGS = 10
START_SECONDS = 15.0
SLACK_SECONDS = 10.0
"""For a client, over the time that it sends: registering memory and exchanging addresses."""
_observation = answer(Observation)


@dataclass(slots=True)
class SurveyedNode:
    """What one node has."""

    ports: list[IbPort] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    mads: bool = False
    """True where management datagrams may be sent: ibping and ibtracert need them."""
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
    ping: tuple[int, int, float | None] | None = None
    """ibping: sent, received, mean milliseconds."""
    hops: tuple[str, ...] = ()
    """ibtracert: every port on the way."""
    notes: tuple[str, ...] = ()
    """What was not possible, and why."""


def bandwidth_words(tool: str, port: IbPort, tcp_port: str, seconds: int, host: str = "") -> list[str]:
    """Perftest's words; without a host they are the server's. Both sides must agree on all but the host."""
    words = [tool, "-d", port.device, "-i", str(port.port), "-p", tcp_port, "--report_gbits", "-F", "-D", str(seconds)]
    return [*words, host] if host else words


def where(port: IbPort) -> list[str]:
    """Options of the infiniband-diags that name a local port."""
    return ["-C", port.device, "-P", str(port.port)]


async def look(nodes: Sequence[PathNode]) -> dict[str, SurveyedNode]:
    """Ask every node what it has. It only reads."""
    return dict(zip([node.name for node in nodes], await asyncio.gather(*map(_look, nodes)), strict=True))


async def _look(node: PathNode) -> SurveyedNode:
    found = SurveyedNode()
    try:
        answers = await ask(node.transport, node.python, ENTRY, {})
    except TransportError as error:
        found.why.append(str(error))
        return found
    for one in answers:
        if one.name == "port":
            try:
                found.ports.append(msgspec.convert(one.value, IbPort))
            except msgspec.ValidationError as error:
                found.why.append(f"unreadable port {one.subject}: {error}")
        elif one.name == "tool" and one.value:
            found.tools.add(one.subject)
        elif one.name == "mads":
            found.mads = one.value is True
        if one.error:
            found.why.append(f"{one.subject}: {one.error}" if one.name == "tool" else one.error)
    if "ibv_devinfo" in found.tools and not found.ports:
        found.why.append("ibv_devinfo lists no adapter")
    return found


def pairs(looked: Mapping[str, SurveyedNode], device: str = "") -> list[list[tuple[str, str]]]:
    """Rounds of pairs that can be measured: both have an active port and one of perftest's tools in common."""
    able = sorted(name for name, one in looked.items() if one.active(device) and one.tools & set(BANDWIDTH_TOOLS))
    return rounds(able) if len(able) > 1 else []


async def survey(
    nodes: Sequence[PathNode],
    looked: Mapping[str, SurveyedNode],
    *,
    device: str = "",
    seconds: int = 2,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Direction]:
    """Measure every pair that can be, nobody in two at once, both directions one after the other."""
    by_name = {node.name: node for node in nodes}
    plan = pairs(looked, device)
    found: list[Direction] = []
    for number, some in enumerate(plan, start=1):
        progress(f"InfiniBand, round {number} of {len(plan)}")
        both = await asyncio.gather(
            *(_pair(by_name[a], by_name[b], looked[a], looked[b], device, seconds) for a, b in some)
        )
        found += [direction for pair in both for direction in pair]
    return found


async def _pair(
    a: PathNode, b: PathNode, at_a: SurveyedNode, at_b: SurveyedNode, device: str, seconds: int
) -> list[Direction]:
    return [
        await _direction(source, target, its, others, device, seconds)
        for source, target, its, others in ((a, b, at_a, at_b), (b, a, at_b, at_a))
    ]


async def _direction(
    source: PathNode, target: PathNode, its: SurveyedNode, others: SurveyedNode, device: str, seconds: int
) -> Direction:
    here, there = its.active(device), others.active(device)
    assert here is not None
    assert there is not None
    ends = f"{here.device}/{here.port}", f"{there.device}/{there.port}"
    tool = next((name for name in BANDWIDTH_TOOLS if name in its.tools & others.tools), "")
    if not tool:
        return Direction(source.name, target.name, ends, "", None, "the two have no tool of perftest in common")
    server = bandwidth_words(tool, there, "{port}", seconds)
    result = await _between(
        source, target, server,
        lambda port: bandwidth_words(tool, here, str(port), seconds, target.address), seconds + SLACK_SECONDS,
    )  # fmt: skip
    value = result.value if isinstance(result.value, list) and len(result.value) == 3 else None
    gbits = float(value[2]) if value is not None and isinstance(value[2], (int, float)) else None
    found = Direction(source.name, target.name, ends, tool, gbits, result.error)
    return await _with_mads(found, source, target, (here, its), (there, others))


async def _with_mads(
    found: Direction,
    source: PathNode,
    target: PathNode,
    here: tuple[IbPort, SurveyedNode],
    there: tuple[IbPort, SurveyedNode],
) -> Direction:
    """Add ibping and ibtracert where the link is InfiniBand and both ends may send management datagrams."""
    (port, its), (far, others) = here, there
    if port.link_layer != "InfiniBand" or far.link_layer != "InfiniBand":
        return replace(found, notes=("ibping and ibtracert need InfiniBand links",))
    if not (its.mads and others.mads and port.lid and far.lid):
        return replace(found, notes=("ibping and ibtracert need /dev/infiniband/umad* (root) and a LID at both ends",))
    ping: tuple[int, int, float | None] | None = None
    hops: tuple[str, ...] = ()
    notes: list[str] = []
    if "ibping" in its.tools & others.tools:
        words = ["ibping", "-c", str(PINGS), "-f", *where(port), str(far.lid)]
        said = await _between(source, target, ["ibping", "-S", *where(far)], lambda _: words, START_SECONDS)
        ping = _ping(said)
        notes += [f"ibping: {said.error}"] if said.error else []
    if "ibtracert" in its.tools:
        words = ["ibtracert", *where(port), str(port.lid), str(far.lid)]
        said = await _run(source, words, START_SECONDS)
        hops = tuple(str(hop) for hop in said.value) if isinstance(said.value, list) else ()
        notes += [f"ibtracert: {said.error}"] if said.error else []
    return replace(found, ping=ping, hops=hops, notes=tuple(notes))


def _ping(said: Observation) -> tuple[int, int, float | None] | None:
    match said.value:
        case [int(sent), int(received), float() | int() | None as mean]:
            return sent, received, None if mean is None else float(mean)
    return None


async def _between(
    source: PathNode,
    target: PathNode,
    server: list[str],
    client: Callable[[int], list[str]],
    seconds: float,
) -> Observation:
    """A server on one node and a client on the other; whatever fails is the answer's error."""
    said: list[Observation] = []

    def take(line: bytes) -> bool:
        said.append(_observation(line))
        return True

    packed = payload.pack(ENTRY, {"serve": server})
    try:
        async with Running(target.transport, payload.command(target.python), packed, take) as running:
            await running.finished(START_SECONDS)
            if said[0].error or not isinstance(said[0].value, int):
                return Observation("result", server[0], None, f"{target.name}: {said[0].error or 'no port'}")
            return await _run(source, client(said[0].value), seconds)
    except TransportError as error:
        return Observation("result", server[0], None, str(error))


async def _run(node: PathNode, words: list[str], seconds: float) -> Observation:
    try:
        answers = await ask(node.transport, node.python, ENTRY, {"run": words, "seconds": seconds})
    except TransportError as error:
        return Observation("result", words[0], None, str(error))
    return answers[0] if answers else Observation("result", words[0], None, f"{node.name} did not say")


def describe(looked: Mapping[str, SurveyedNode], device: str, seconds: int) -> list[str]:
    """The exact commands, with PORT for the free port that is taken and ADDRESS and LID for the other end's."""
    lines = []
    for name, one in sorted(looked.items()):
        port = one.active(device)
        tool = next((tool for tool in BANDWIDTH_TOOLS if tool in one.tools), "")
        if port is not None and tool:
            lines.append(f"on {name}: {' '.join(bandwidth_words(tool, port, 'PORT', seconds, '[ADDRESS]'))}")
            if one.mads and port.link_layer == "InfiniBand":
                at = " ".join(where(port))
                lines.append(f"on {name}: ibping -S {at}; ibping -c {PINGS} -f {at} LID; ibtracert {at} {port.lid} LID")
    return lines
