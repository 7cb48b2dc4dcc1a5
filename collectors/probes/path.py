"""The path probe: all nodes listen, then every pair is measured in both directions, with iperf3 where both have it."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
import statistics
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Any

from collectors.fleet import payload
from collectors.fleet.transport import TransportError
from collectors.probes.allreduce.plan import tournament
from collectors.probes.running import NodeAccess, Running, answer, collect, observation
from collectors.probes.tools import run_against
from collectors.samples.asked import PathFigure

ENTRY = "collectors.node.network.path"
START_SECONDS = 10.0
DIRECTION_SECONDS = 20.0
"""For one direction of one pair: three time-outs of a blocked path fit in."""
ALL_PAIRS = 16
"""Up to this many nodes all pairs are measured; above, every node against the first (the master's)."""
_path_figure = answer(PathFigure)


def rounds(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Rounds of pairs; in one round no node is in two pairs, so that links are not shared."""
    if len(names) <= ALL_PAIRS:
        return tournament(tuple(names))
    return [[(names[0], name)] for name in names[1:]]


def describe(python: str = "python3") -> str:
    """The exact remote command, and what it does there, for the person who is asked."""
    return (
        f"{shlex.join(payload.command(python))}  (the program comes through its input: sockets between the nodes; "
        "iperf3 where it is installed)"
    )


class PathSurvey:
    """One survey. ``iperf`` are the nodes that have iperf3: between two of those, the throughput is its figure."""

    def __init__(self, nodes: Sequence[NodeAccess], seconds: float, iperf: Collection[str] = ()) -> None:
        self.figures: list[PathFigure] = []
        self.absent: dict[str, str] = {}
        """Nodes that could not take part, with the reason."""
        self._nodes = {node.name: node for node in nodes}
        self._ports: dict[str, dict[str, int]] = {}
        self._seconds = seconds
        self._iperf = iperf

    async def run(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Measure every direction. A pair that was slow while others were measured gets a second look, alone."""
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(self._listen(stack, node) for node in self._nodes.values()))
            plan = rounds(sorted(self._ports))
            for number, pairs in enumerate(plan, start=1):
                progress(f"paths, round {number} of {len(plan)}")
                for both in await asyncio.gather(*(self._pair(a, b) for a, b in pairs)):
                    self.figures += both
            for a, b in self._slow_pairs():
                progress(f"once more: {a} and {b}")
                again = {(figure.a, figure.b): figure for figure in await self._pair(a, b)}
                self.figures = [
                    max(figure, again.get((figure.a, figure.b), figure), key=lambda one: one.throughput or 0.0)
                    for figure in self.figures
                ]

    def _slow_pairs(self) -> list[tuple[str, str]]:
        """Pairs of which a direction is far under the median of all, and which did not fail."""
        known = [figure.throughput for figure in self.figures if figure.throughput is not None]
        usual = statistics.median(known) if len(known) >= 4 else 0.0
        slow = [f for f in self.figures if f.throughput is not None and f.throughput < usual / 2 and not f.error]
        return sorted({(min(f.a, f.b), max(f.a, f.b)) for f in slow})

    async def _listen(self, stack: AsyncExitStack, node: NodeAccess) -> None:
        """Start a listener, which says its TCP and its UDP port."""
        ports: dict[str, int] = {}

        def take(line: bytes) -> bool:
            found = observation(line)
            if isinstance(found.value, int):
                ports[found.subject] = found.value
            return len(ports) == 2

        packed = payload.pack(ENTRY, {"listen": True})
        try:
            running = Running(node.transport, payload.command(node.python), packed, take)
            await (await stack.enter_async_context(running)).finished(START_SECONDS)
            self._ports[node.name] = ports
        except TransportError as error:
            self.absent[node.name] = str(error)

    async def _pair(self, a: str, b: str) -> list[PathFigure]:
        """One direction after the other: at once they would share the link."""
        there = await self._direction(self._nodes[a], self._nodes[b])
        return [there, await self._direction(self._nodes[b], self._nodes[a])]

    async def _direction(self, source: NodeAccess, target: NodeAccess) -> PathFigure:
        where = {"name": target.name, "host": target.address, **self._ports[target.name]}
        arguments = {"name": source.name, "targets": [where], "seconds": self._seconds}
        try:
            found = await collect(
                source.transport, source.python, ENTRY, arguments, _path_figure, DIRECTION_SECONDS,
                last=lambda figure: not figure.b,
            )  # fmt: skip
            why = "" if len(found) > 1 else f"{source.name} ended without a figure"
        except TransportError as error:
            found, why = [], str(error)
        if why:
            return PathFigure(source.name, target.name, None, None, None, None, "", "", None, None, why)
        figure = found[0]._replace(a=source.name, b=target.name)
        if {source.name, target.name} <= set(self._iperf) and figure.throughput and not figure.error:
            return await self._with_iperf(figure, source, target)
        return figure

    async def _with_iperf(self, figure: PathFigure, source: NodeAccess, target: NodeAccess) -> PathFigure:
        """The figure with iperf3's throughput in place of ours; with ours, and the reason, where iperf3 failed."""
        seconds = str(math.ceil(self._seconds))
        result = await run_against(
            source, target, ["iperf3", "-s", "-1", "-p", "{port}"],
            lambda port: ["iperf3", "-c", target.address, "-p", str(port), "-t", seconds, "-J"],
            DIRECTION_SECONDS + self._seconds,
        )  # fmt: skip
        version, rate, why = parse_iperf(str(result.value or ""))
        if rate is None:
            return figure._replace(method=f"hangtop (iperf3 failed: {why or result.error})")
        return figure._replace(throughput=rate, method=version)


def parse_iperf(printed: str) -> tuple[str, float | None, str]:
    """(version, bytes a second that arrived, error) of ``iperf3 -J``."""
    try:
        document = json.loads(printed)
    except (ValueError, RecursionError):
        return "iperf3", None, ""
    rate = _part(_part(document, "end"), "sum_received").get("bits_per_second")
    version = str(_part(document, "start").get("version") or "iperf3")[:40]
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1e18:
        return version, None, str(_part({"": document}, "").get("error") or "its answer has no rate")[:200]
    return version, rate / 8.0, ""


def _part(document: Any, name: str) -> dict[str, Any]:
    part = document.get(name) if isinstance(document, dict) else None
    return part if isinstance(part, dict) else {}
