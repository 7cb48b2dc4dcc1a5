"""Asks every node how it sees the others: names, routes, ping; and measures with iperf3 where two nodes have it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.fleet import payload
from collectors.fleet.transport import Transport, TransportError
from collectors.probes.decoding import answer
from collectors.probes.gather import gather
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
    """Answers by node, and why others gave none."""

    answers: dict[str, list[Observation]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def of(self, node: str, name: str, subject: str = "") -> Observation | None:
        """One answer."""
        found = (one for one in self.answers.get(node, ()) if one.name == name and subject in ("", one.subject))
        return next(found, None)

    def has(self, node: str, tool: str) -> bool:
        """True where a tool was found."""
        found = self.of(node, "tool", tool)
        return found is not None and bool(found.value)


async def ask(transport: Transport, python: str, entry: str, arguments: Mapping[str, object]) -> list[Observation]:
    """Run one of the programs to its ``done``. Raises :class:`TransportError`."""
    found: list[Observation] = []

    def take(line: bytes) -> bool:
        one = _observation(line)
        if one.name != "done":
            found.append(one)
        return one.name in ("done", "iperf3")

    await gather(transport, payload.command(python), payload.pack(entry, dict(arguments)), take, SECONDS)
    return found


async def look_around(
    places: Sequence[tuple[str, Transport, str, str]], names: Sequence[str], *, measure: bool = True
) -> Around:
    """Ask (name, connection, interpreter, address) of every node about the names and the others' addresses."""
    found = Around()

    async def one(place: tuple[str, Transport, str, str]) -> None:
        name, transport, python, _ = place
        others = [address for other, _, _, address in places if other != name]
        try:
            arguments = {"names": list(names), "addresses": others, "measure": measure}
            found.answers[name] = await ask(transport, python, AROUND, arguments)
        except TransportError as error:
            found.errors[name] = str(error)

    await asyncio.gather(*map(one, places))
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
