"""Slurm's view of a job's nodes: the job's part and steps there, the time left, the node's state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.targets.chosen import TargetError, parse
from collectors.fleet.targets.slurm import SlurmComponent, slurm_words
from collectors.fleet.transport import TransportError

EVERY = 60.0
"""Seconds between two questions: each is one more for slurmctld."""
_DEADLINE = 20.0
_LIMIT = 4 << 20
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One node in Slurm's view."""

    job: str
    """The part of the job on the node: ``17``, ``17_3``, ``17+1``."""
    left: str = ""
    """Time left as Slurm writes it, ``1-02:03:04`` or ``UNLIMITED``."""
    steps: tuple[str, ...] = ()
    """Ids of the job's steps there, with their names: ``17.0 train``."""
    state: str = ""
    """``mixed``, ``drained``, ``down*`` …"""
    reason: str = ""
    """The recorded reason why it is down or drained."""


async def keep_asking(parts: Sequence[SlurmComponent], tell: Callable[[Mapping[str, Scheduled]], None]) -> None:
    """Ask now and every minute, and pass the nodes to ``tell``."""
    while True:
        tell(await ask(parts))
        await asyncio.sleep(EVERY)


async def ask(parts: Sequence[SlurmComponent]) -> dict[str, Scheduled]:
    """The nodes now, without what Slurm does not answer. Runs squeue twice and sinfo once."""
    jobs = ",".join(part.number for part in parts)
    nodes = ",".join(part.nodes for part in parts)
    left, steps, states = await asyncio.gather(
        _lines(["squeue", "--noheader", "--jobs", jobs, "--format", "%A|%L"]),
        _lines(["squeue", "--noheader", "--steps", "--jobs", jobs, "--format", "%i|%N|%j"]),
        _lines(["sinfo", "--noheader", "--Node", "--nodes", nodes, "--format", "%N|%T|%E"]),
    )
    return put_together(parts, left, steps, states)


def put_together(
    parts: Sequence[SlurmComponent], left: Sequence[str], steps: Sequence[str], states: Sequence[str]
) -> dict[str, Scheduled]:
    """Nodes from lines ``job|left``, ``step|nodes|name`` and ``node|state|reason``."""
    times = dict(fields for line in left if len(fields := line.split("|", 1)) == 2)
    found: dict[str, Scheduled] = {}
    for part in parts:
        for node in _unfolded(part.nodes):
            found.setdefault(node, Scheduled(part.label, times.get(part.number, "").strip()))
    for line in steps:
        step, _, rest = line.partition("|")
        where, _, name = rest.partition("|")
        for node in _unfolded(where):
            if node in found:
                here = found[node]
                found[node] = replace(here, steps=(*here.steps, f"{step} {name}".strip()[:_LONGEST]))
    for line in states:
        node, _, rest = line.partition("|")
        state, _, reason = rest.partition("|")
        if node in found:
            found[node] = replace(found[node], state=state, reason="" if reason == "none" else reason[:_LONGEST])
    return found


def _unfolded(nodes: str) -> list[str]:
    try:
        return [target.host for target in parse([nodes])] if nodes else []
    except TargetError:
        return []  # an unreadable set names no node


async def _lines(command: list[str]) -> list[str]:
    """What a command of Slurm prints; nothing when it fails, for the next minute asks again."""
    try:
        done = await Local("Slurm").run(slurm_words(command), timeout=_DEADLINE, limit=_LIMIT)
    except TransportError:
        return []
    return [line.strip() for line in clean_bytes(done.stdout).splitlines()] if done.status == 0 else []
