"""Preflight's survey of all nodes: each node checks itself and listens, then nodes connect to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from collectors.fleet.transport import TransportError
from collectors.probes.running import NodeAccess, observe, observing
from collectors.samples.probes import Observation

ENTRY = "collectors.node.machine.preflight"
LOOK_SECONDS = 12.0
REACH_SECONDS = 10.0


@dataclass(slots=True)
class Survey:
    """Answers by node, and the reason of each node that did not answer."""

    answers: dict[str, list[Observation]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def port(self, node: str, wanted: int) -> int | None:
        """The port on which a node listens for a request of port ``wanted`` (0: any port)."""
        answers = (item for item in self.answers.get(node, ()) if (item.name, item.subject) == ("listen", str(wanted)))
        return next((item.value for item in answers if isinstance(item.value, int)), None)


async def survey(nodes: Sequence[NodeAccess], *, master: str, port: int, master_node: str) -> Survey:
    """Ask all nodes. Every node listens on an ephemeral port; the master's node also on the rendezvous port, if free.

    Then every node connects to both ports of the master's node, and the master's node connects to the ephemeral port of
    every other node: a star in both directions, with connections of at most 3 s, all at once.
    """
    found = Survey()

    async def look(stack: AsyncExitStack, node: NodeAccess) -> None:
        wanted = [0, port] if node.name == master_node else [0]
        arguments = {"listen": wanted, "master": master}
        try:
            asking = observing(node, ENTRY, arguments, LOOK_SECONDS)
            found.answers[node.name] = await stack.enter_async_context(asking)
        except TransportError as error:
            found.errors[node.name] = str(error)

    async def reach(node: NodeAccess, targets: Sequence[tuple[str, int]]) -> None:
        arguments = {"connect": [list(target) for target in targets], "look": False}
        try:
            answers = await observe(node, ENTRY, arguments, REACH_SECONDS)
            found.answers.setdefault(node.name, []).extend(answers)
        except TransportError as error:
            found.errors[node.name] = str(error)

    async with AsyncExitStack() as stack:
        await asyncio.gather(*(look(stack, node) for node in nodes))
        keeper = next((node for node in nodes if node.name == master_node), None)
        if keeper is None:
            return found
        targets: dict[str, list[tuple[str, int]]] = {}
        for node in nodes:
            free, masters = found.port(node.name, 0), found.port(keeper.name, 0)
            if node is keeper or free is None:
                continue
            targets.setdefault(keeper.name, []).append((node.address, free))
            mine = targets.setdefault(node.name, [])
            mine += [(keeper.address, masters)] if masters is not None else []
            mine += [(master or keeper.address, port)] if found.port(keeper.name, port) is not None else []
        await asyncio.gather(*(reach(node, targets[node.name]) for node in nodes if targets.get(node.name)))
    return found
