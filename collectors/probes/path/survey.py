"""Runs ``collectors.node.network.path`` on all nodes: all listen, then every pair is measured in both directions."""

from __future__ import annotations

import asyncio
import shlex
import statistics
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from collectors.fleet import payload
from collectors.fleet.transport import Transport, TransportError
from collectors.probes.allreduce.plan import tournament
from collectors.probes.decoding import answer
from collectors.probes.gather import gather
from collectors.probes.path.around import with_iperf
from collectors.probes.running import Running
from collectors.samples.asked import Observation, PathFigure

ENTRY = "collectors.node.network.path"
START_SECONDS = 10.0
DIRECTION_SECONDS = 20.0
"""For one direction of one pair: three time-outs of a blocked path fit in."""
ALL_PAIRS = 16
"""Up to this many nodes all pairs are measured; above, every node against the first (the master's)."""
_observation = answer(Observation)
_path_figure = answer(PathFigure)


@dataclass(frozen=True, slots=True)
class PathNode:
    """A node of the survey: its connection, its interpreter, and the address at which the job's network reaches it."""

    name: str
    transport: Transport
    python: str
    address: str


def rounds(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Rounds of pairs; in one round no node is in two pairs, so that links are not shared."""
    if len(names) <= ALL_PAIRS:
        return tournament(tuple(names))
    return [[(names[0], name)] for name in names[1:]]


def describe(python: str = "python3") -> str:
    """The exact remote command, and what it does there, for the person who is asked."""
    return (
        f"{shlex.join(payload.command(python))}  (the program comes through its input: sockets between the nodes; "
        "iperf3 -n where it is installed)"
    )


async def survey(
    nodes: Sequence[PathNode],
    *,
    seconds: float = 0.5,
    progress: Callable[[str], None] = lambda _: None,
    iperf: Collection[str] = (),
) -> tuple[list[PathFigure], dict[str, str]]:
    """Measure; returns the figures of every direction, and the nodes that could not take part with the reason.

    ``iperf`` are the nodes that have iperf3: between two of those, the throughput is its figure.
    """
    figures: list[PathFigure] = []
    absent: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        listening = await asyncio.gather(*(_listen(stack, node, absent) for node in nodes))
        ports = {node.name: found for node, found in zip(nodes, listening, strict=True) if found}
        by_name = {node.name: node for node in nodes if node.name in ports}
        plan = rounds(sorted(by_name))
        for number, pairs in enumerate(plan, start=1):
            progress(f"paths, round {number} of {len(plan)}")
            both = await asyncio.gather(*(_pair(by_name[a], by_name[b], ports, seconds, iperf) for a, b in pairs))
            figures.extend(figure for pair in both for figure in pair)
        for a, b in slow_pairs(figures):
            # One look proves nothing: a pair that was slow while others were measured gets a second one alone.
            progress(f"once more: {a} and {b}")
            again = await _pair(by_name[a], by_name[b], ports, seconds, iperf)
            figures = [better(figure, again) for figure in figures]
    return figures, absent


def slow_pairs(figures: Sequence[PathFigure]) -> list[tuple[str, str]]:
    """Pairs of which a direction is far under the median of all, and which neither failed nor lost packets."""
    known = [figure.throughput for figure in figures if figure.throughput is not None]
    if len(known) < 4:
        return []
    usual = statistics.median(known)
    slow = [f for f in figures if f.throughput is not None and f.throughput < usual / 2 and not f.error]
    return sorted({(min(f.a, f.b), max(f.a, f.b)) for f in slow})


def better(figure: PathFigure, again: Sequence[PathFigure]) -> PathFigure:
    """The faster of two looks at the same direction."""
    for other in again:
        if (other.a, other.b) == (figure.a, figure.b) and (other.throughput or 0.0) > (figure.throughput or 0.0):
            return other
    return figure


async def _listen(stack: AsyncExitStack, node: PathNode, absent: dict[str, str]) -> dict[str, int]:
    """Start a listener; its ports by protocol, empty where it did not start."""
    ports: dict[str, int] = {}

    def take(line: bytes) -> bool:
        found = _observation(line)
        if isinstance(found.value, int):
            ports[found.subject] = found.value
        return len(ports) == 2

    packed = payload.pack(ENTRY, {"listen": True})
    running = Running(node.transport, payload.command(node.python), packed, take)
    try:
        await stack.enter_async_context(running)
        await running.finished(START_SECONDS)
    except TransportError as error:
        absent[node.name] = str(error)
        return {}
    return ports


async def _pair(
    a: PathNode, b: PathNode, ports: dict[str, dict[str, int]], seconds: float, iperf: Collection[str]
) -> list[PathFigure]:
    """One direction after the other: at once they would share the link."""
    figures = []
    for source, target in ((a, b), (b, a)):
        figure = await _direction(source, target, ports, seconds)
        if source.name in iperf and target.name in iperf:
            ends = (source.transport, source.python), (target.transport, target.python)
            figure = await with_iperf(figure, *ends, target.address, seconds)
        figures.append(figure)
    return figures


async def _direction(
    source: PathNode, target: PathNode, ports: dict[str, dict[str, int]], seconds: float
) -> PathFigure:
    found: list[PathFigure] = []

    def take(line: bytes) -> bool:
        figure = _path_figure(line)
        if not figure.b:
            return True
        found.append(figure._replace(a=source.name, b=target.name, error=figure.error))
        return False

    where = {"name": target.name, "host": target.address, **ports[target.name]}
    arguments = {"name": source.name, "targets": [where], "seconds": seconds}
    try:
        await gather(
            source.transport, payload.command(source.python), payload.pack(ENTRY, arguments), take, DIRECTION_SECONDS
        )
    except TransportError as error:
        return PathFigure(source.name, target.name, None, None, None, None, "", "", None, None, str(error))
    if not found:
        why = f"{source.name} ended without a figure"
        return PathFigure(source.name, target.name, None, None, None, None, "", "", None, None, why)
    return found[0]
