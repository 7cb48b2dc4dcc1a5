"""The survey of all nodes: each node checks itself and listens, then the nodes connect to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from collectors.fleet.transport import Transport, TransportError
from collectors.probes.preflight.ask import PreflightRun
from collectors.samples.asked import Observation

LOOK_SECONDS = 12.0
REACH_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A node of the survey: its connection, its interpreter, and the address at which the job's network reaches it."""

    name: str
    transport: Transport
    python: str
    address: str


@dataclass(slots=True)
class Survey:
    """Answers, and the nodes that did not answer with the reason."""

    answers: dict[str, list[Observation]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


async def survey(
    places: Sequence[Surveyed], *, master: str, port: int, master_node: str, paths: Sequence[str]
) -> Survey:
    """Ask all nodes. The master's node listens on the rendezvous port if that is free, and everybody on one of its own.

    Every node then connects to the master's port and ephemeral port, and the master's node to the ephemeral port of
    every other: a star both ways, 2(N-1) connections of at most 3 s, all at once.
    """
    found = Survey()
    async with AsyncExitStack() as stack:
        listening = await asyncio.gather(
            *(_look(stack, found, place, master, port, master_node, paths) for place in places)
        )
        ports = {name: port for name, port in listening if port is not None}
        by_name = {place.name: place for place in places}
        keeper = by_name.get(master_node)
        if keeper is None:
            return found
        open_port = any(
            answer.name == "listen" and answer.subject == str(port) and not answer.error
            for answer in found.answers.get(master_node, ())
        )
        targets: dict[str, list[tuple[str, int]]] = {place.name: [] for place in places}
        for place in places:
            if place.name == master_node or place.name not in ports:
                continue
            targets[master_node].append((place.address, ports[place.name]))
            if master_node in ports:
                targets[place.name].append((keeper.address, ports[master_node]))
            if open_port:
                targets[place.name].append((master or keeper.address, port))
        await asyncio.gather(*(_reach(found, place, targets[place.name]) for place in places if targets[place.name]))
    return found


async def _look(
    stack: AsyncExitStack,
    found: Survey,
    place: Surveyed,
    master: str,
    port: int,
    master_node: str,
    paths: Sequence[str],
) -> tuple[str, int | None]:
    """Let one node look at itself; returns the ephemeral port that it now listens on."""
    wanted = [0, port] if place.name == master_node else [0]
    arguments: dict[str, object] = {"listen": wanted, "paths": list(paths), "master": master}
    asked = PreflightRun(place.transport, place.python, arguments)
    try:
        await stack.enter_async_context(asked)
        found.answers[place.name] = await asked.finished(LOOK_SECONDS)
    except TransportError as error:
        found.errors[place.name] = str(error)
        return place.name, None
    own = next((answer.value for answer in asked.answers if answer.name == "listen" and answer.subject == "0"), None)
    return place.name, own if isinstance(own, int) else None


async def _reach(found: Survey, place: Surveyed, targets: Sequence[tuple[str, int]]) -> None:
    """Let one node connect to its targets."""
    arguments: dict[str, object] = {"connect": [list(target) for target in targets], "look": False}
    try:
        async with PreflightRun(place.transport, place.python, arguments) as asked:
            found.answers[place.name] = [*found.answers.get(place.name, []), *await asked.finished(REACH_SECONDS)]
    except TransportError as error:
        found.errors[place.name] = str(error)


def addresses(names: Mapping[str, Sequence[str]], wanted: str) -> str | None:
    """Node that holds an address, of (node → its addresses, with or without prefix length); None when none does."""
    for name, held in names.items():
        if wanted in {address.partition("/")[0] for address in held}:
            return name
    return None
