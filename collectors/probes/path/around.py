"""Tools and firewalls of every node, and iperf3 between two nodes that have it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.fleet import payload
from collectors.fleet.transport import Transport, TransportError
from collectors.probes.decoding import answer
from collectors.probes.gather import collect
from collectors.probes.running import Running
from collectors.samples.asked import Observation, PathFigure

AROUND = "collectors.probes.path.remote.around"
IPERF = "collectors.probes.path.remote.iperf"
SECONDS = 20.0
LEAST, MOST = 1 << 20, 32 << 30
"""Bytes that iperf3 sends."""
_observation = answer(Observation)


@dataclass(slots=True)
class Around:
    """Answers by node, and errors of nodes without an answer."""

    answers: dict[str, list[Observation]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def has_iperf(self, node: str) -> bool:
        """True where iperf3 was found."""
        return any(one.name == "tool" and bool(one.value) for one in self.answers.get(node, ()))


async def ask(transport: Transport, python: str, entry: str, arguments: Mapping[str, object]) -> list[Observation]:
    """Run one of the programs to its ``done``. Raises :class:`TransportError`."""
    found = await collect(
        transport, python, entry, arguments, _observation, SECONDS, last=lambda one: one.name in ("done", "iperf3")
    )
    return [one for one in found if one.name != "done"]


async def look_around(places: Sequence[tuple[str, Transport, str]]) -> Around:
    """Ask (name, connection, interpreter) of every node."""
    found = Around()

    async def one(name: str, transport: Transport, python: str) -> None:
        try:
            found.answers[name] = await ask(transport, python, AROUND, {})
        except TransportError as error:
            found.errors[name] = str(error)

    await asyncio.gather(*(one(*place) for place in places))
    return found


async def with_iperf(
    figure: PathFigure, source: tuple[Transport, str], target: tuple[Transport, str], host: str, seconds: float
) -> PathFigure:
    """The figure with iperf3's throughput in place of ours; with ours, and the reason, where iperf3 failed."""
    if figure.error or not figure.throughput:
        return figure
    ports: list[Observation] = []

    def take(line: bytes) -> bool:
        ports.append(_observation(line))
        return True

    running = Running(target[0], payload.command(target[1]), payload.pack(IPERF, {"serve": True}), take)
    size = min(MOST, max(LEAST, math.ceil(figure.throughput * seconds)))
    try:
        async with running:
            await running.finished(SECONDS)
            if not isinstance(ports[0].value, int):
                return figure._replace(method=f"hangtop (iperf3 failed: {ports[0].error})")
            arguments = {"host": host, "port": ports[0].value, "bytes": size}
            (said,) = await ask(source[0], source[1], IPERF, arguments)
    except TransportError as error:
        return figure._replace(method=f"hangtop (iperf3 failed: {error})")
    if not isinstance(said.value, list) or not isinstance(said.value[0], (int, float)):
        return figure._replace(method=f"hangtop (iperf3 failed: {said.error})")
    return figure._replace(throughput=float(said.value[0]), method=said.subject)
