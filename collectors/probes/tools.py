"""Tools on the nodes (iperf3, perftest, infiniband-diags): find them, run one, run a client against a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from collectors.fleet.transport import TransportError
from collectors.probes.running import NodeAccess, observe, observing
from collectors.samples.probes import Observation

ENTRY = "collectors.probes.remote.tools"
START_SECONDS = 15.0
SLACK_SECONDS = 5.0
"""Seconds on top of the time that a tool may take."""


async def look(
    nodes: Sequence[NodeAccess], names: Sequence[str], *, firewalls: bool = False
) -> dict[str, list[Observation]]:
    """By node: the tools found, and active firewalls if asked; an ``error`` for a node without an answer."""

    async def ask(node: NodeAccess) -> list[Observation]:
        try:
            return await observe(node, ENTRY, {"find": list(names), "firewalls": firewalls}, START_SECONDS)
        except TransportError as error:
            return [Observation("error", "", None, str(error))]

    return dict(zip([node.name for node in nodes], await asyncio.gather(*map(ask, nodes)), strict=True))


def found(answers: Sequence[Observation]) -> set[str]:
    """Names of the tools that a node has."""
    return {answer.subject for answer in answers if answer.name == "tool" and answer.value}


async def run(node: NodeAccess, words: Sequence[str], seconds: float) -> Observation:
    """Run one tool: its output, and why it failed."""
    try:
        (result,) = await observe(node, ENTRY, {"run": list(words), "seconds": seconds}, seconds + SLACK_SECONDS)
    except (TransportError, ValueError) as error:
        return Observation("result", words[0], None, str(error))
    return result


async def run_against(
    source: NodeAccess, target: NodeAccess, server: Sequence[str], client: Callable[[int], list[str]], seconds: float
) -> Observation:
    """Run a server on the target (``{port}``: a free port) and a client on the source; returns the client's output."""
    try:
        async with observing(target, ENTRY, {"serve": list(server)}, START_SECONDS) as answers:
            port = answers[0].value if answers else None
            if not isinstance(port, int):
                why = answers[0].error if answers else "no answer"
                return Observation("result", server[0], None, f"{target.name}: {why}")
            return await run(source, client(port), seconds)
    except TransportError as error:
        return Observation("result", server[0], None, str(error))
