"""Probes: measurements and actions on a job. Each states what it will do, then runs, and answers in lines and JSON.

To add a probe, write a module with a function that makes a :class:`Probe` from a session. The command line and the
screen run all probes the same way: show the command, ask the user, run it with progress, and show the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from collectors.fleet.transport import TransportError
from collectors.probes.running import NodeAccess
from hangtop.diagnosis.addresses import address_of
from hangtop.diagnosis.finding import Finding, Unknown
from hangtop.diagnosis.job import Job

if TYPE_CHECKING:
    from hangtop.session.session import Session

NEEDED = ("ranks", "network", "gpus", "fabric")
"""Sources that decide which nodes take part in a probe, and through which port and on which GPUs."""

Say = Callable[[str], None]
"""Takes a line of progress."""


class ProbeRefused(Exception):
    """The probe would do harm or cannot work; the text says why, and what would change that."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe."""

    title: str
    outcome: str
    """``ok``, ``slow``, ``failed`` or ``cancelled``."""
    summary: str
    lines: tuple[str, ...] = ()
    """The figures as text."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Members of the command's JSON (docs/findings.md)."""
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    """What could not be measured, and why."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe, ready to run: what the user confirms is what runs."""

    title: str
    brief: str
    """Where, what, how long, which load: ``2 nodes, all_reduce to 512 MiB, about 10 s, nccl, loads the network``."""
    command: str
    """The exact commands on the nodes, one per line; empty if none is shown."""
    run: Callable[[Say], Awaitable[ProbeResult]]
    """Runs the probe. When cancelled, it ends everything on every node. Raises :class:`ProbeRefused`."""
    risk: str = ""
    """Cost and risk for the job."""
    nodes: tuple[str, ...] = ()
    """Nodes on which it runs."""
    signals: bool = False
    """It ends or continues processes: the user must confirm, even if no job runs."""


async def run_probe(probe: Probe, say: Say) -> ProbeResult:
    """Run a probe. Cancellation is the user's Ctrl-C or Escape: the result is then ``cancelled``, and nothing runs on.

    This swallows the cancellation, so that the caller can still show the result. Raises :class:`ProbeRefused`.
    """
    try:
        return await probe.run(say)
    except asyncio.CancelledError:
        return ProbeResult(probe.title, "cancelled", "stopped on request")


def nodes_of(session: Session, job: Job) -> tuple[list[NodeAccess], dict[str, str]]:
    """The nodes of a job that can take part in a probe, and node → reason for the others."""
    there: list[NodeAccess] = []
    absent: dict[str, str] = {}
    for name, node in sorted(job.nodes.items()):
        try:
            there.append(NodeAccess(name, session.transport(name), address_of(job, node)))
        except TransportError as error:
            absent[name] = node.why or str(error)
    return there, absent


def unknowns(what: str, reasons: Iterable[tuple[str, str]]) -> tuple[Unknown, ...]:
    """One :class:`Unknown` for each reason, from pairs of node and reason."""
    by_why: dict[str, set[str]] = {}
    for node, why in reasons:
        by_why.setdefault(why, set()).add(node)
    return tuple(Unknown(what, tuple(sorted(nodes)), why) for why, nodes in by_why.items())


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table: first and last column aligned left, the others right. No lines without rows."""
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *middle, last in lines if len(lines) > 1 else ():
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(middle, widths[1:], strict=False))]
        yield "  ".join([*cells, last]).rstrip()
