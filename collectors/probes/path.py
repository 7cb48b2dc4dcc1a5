"""The path probe: all nodes listen, then pairs are measured in both directions, with iperf3 if both nodes have it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Any

from collectors.fleet import payload
from collectors.fleet.transport import TransportError
from collectors.probes.pairs import Bisection, pair_of
from collectors.probes.running import NodeAccess, answer, collect, observing
from collectors.probes.tools import run_against
from collectors.samples.probes import PathFigure, ProbePair

ENTRY = "collectors.node.network.path"
START_SECONDS = 10.0
DIRECTION_SECONDS = 20.0
"""For one direction of one pair: enough for three time-outs of a blocked path."""
_path_figure = answer(PathFigure)


def describe() -> str:
    """The remote commands, shown before a run: every node listens, then each node sends to each other node."""
    return "\n".join([
        payload.shown(ENTRY, "listen=true"),
        payload.shown(ENTRY, "targets=[PEER], seconds=SECONDS"),
        "iperf3 -s -1 -p PORT; iperf3 -c PEER -p PORT -t SECONDS -J  (where both nodes have it)",
    ])  # fmt: skip


class PathSurvey:
    """One survey. ``iperf``: nodes with iperf3, between which iperf3 measures the throughput."""

    def __init__(self, nodes: Sequence[NodeAccess], seconds: float, iperf: Collection[str] = ()) -> None:
        self.figures: dict[tuple[str, str], PathFigure] = {}
        """By (source, target): the fastest measurement."""
        self.pairs: list[ProbePair] = []
        self.absent: dict[str, str] = {}
        """Nodes that could not take part, with the reason."""
        self._nodes = {node.name: node for node in nodes}
        self._ports: dict[str, dict[str, int]] = {}
        self._seconds = seconds
        self._iperf = iperf

    async def run(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Start listeners on all nodes, then measure pairs of nodes."""
        bisection = Bisection(self._pair, progress)
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(self._listen(stack, node) for node in self._nodes.values()))
            await bisection.run(tuple(sorted(self._ports)))
        self.pairs = sorted(bisection.pairs.values())

    async def _listen(self, stack: AsyncExitStack, node: NodeAccess) -> None:
        """Start a listener, which reports its TCP and its UDP port."""
        try:
            ports = await stack.enter_async_context(observing(node, ENTRY, {"listen": True}, START_SECONDS))
            self._ports[node.name] = {port.subject: port.value for port in ports if isinstance(port.value, int)}
        except TransportError as error:
            self.absent[node.name] = str(error)

    async def _pair(self, a: str, b: str) -> ProbePair:
        """Measure one direction after the other, because two at once would share the link."""
        for way in ((a, b), (b, a)):
            found = await self._direction(self._nodes[way[0]], self._nodes[way[1]])
            known = self.figures.get(way)
            if known is None or (found.throughput or 0.0) > (known.throughput or 0.0):
                self.figures[way] = found
        return pair_of(self.figures[a, b], self.figures[b, a])

    async def _direction(self, source: NodeAccess, target: NodeAccess) -> PathFigure:
        where = {"name": target.name, "host": target.address, **self._ports[target.name]}
        arguments = {"name": source.name, "targets": [where], "seconds": self._seconds}
        try:
            (found,) = await collect(source.transport, ENTRY, arguments, _path_figure, DIRECTION_SECONDS)
        except (TransportError, ValueError) as error:
            return PathFigure(source.name, target.name, error=str(error))
        figure = found._replace(a=source.name, b=target.name)
        if {source.name, target.name} <= set(self._iperf) and figure.throughput and not figure.error:
            return await self._with_iperf(figure, source, target)
        return figure

    async def _with_iperf(self, figure: PathFigure, source: NodeAccess, target: NodeAccess) -> PathFigure:
        """The figure with iperf3's throughput; if iperf3 failed, with our throughput and the reason."""
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
    """(version, received bytes per second, error) of ``iperf3 -J``."""
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
