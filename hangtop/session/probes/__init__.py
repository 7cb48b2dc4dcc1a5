"""What can be measured or asked of a job: each probe says what it will do, then runs, and answers in lines and JSON.

To add a probe, write a module with a function that makes a :class:`Probe` of a session. The commands and the screen run
any of them in one way: they show the command, ask, run it in view, and print or draw the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from collectors.fleet.transport import Transport, TransportError
from collectors.probes.running import NodeAccess
from collectors.samples.probes import ProbePair, ProbeReport
from hangtop.diagnosis.addresses import address_of
from hangtop.diagnosis.finding import Finding, Unknown
from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions

NEEDED = ("ranks", "network", "gpus", "fabric")
"""Sources that decide who takes part in a probe, through which port and on which GPUs."""
LOADS = "The probe loads their network for some seconds."

Shade = Literal["", "dim", "strong", "good", "middling", "bad", "accent"]
"""What a piece of text is; it never carries meaning that its words or glyphs do not."""
Piece = tuple[str, Shade]
Line = list[Piece]
Say = Callable[[str], None]
"""Takes a line of progress."""


class ProbeSession(Protocol):
    """What a probe needs of a session."""

    options: SessionOptions
    probed: list[ProbeReport]
    """Reports of collectives, for the verdict."""

    def job(self) -> Job:
        """The frozen picture of this moment."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`TransportError`."""

    def python(self, node: str) -> str:
        """The interpreter that was found on a node. Raises :class:`TransportError`."""


class ProbeRefused(Exception):
    """The probe would harm or cannot work; the text says why, and what would change that."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found."""

    title: str
    outcome: str
    """``ok``, ``slow``, ``failed`` or ``cancelled``."""
    summary: str
    lines: tuple[Line, ...] = ()
    """The figures for people."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Members of the command's JSON (docs/findings.md)."""
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    """What was not possible, and why."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe, complete: nothing is looked up any more once somebody said yes to it."""

    title: str
    brief: str
    """Where, what, how long, what it loads: ``2 nodes, all_reduce to 512 MiB, about 10 s, nccl, loads the network``."""
    command: str
    """The exact commands on the nodes, several by line breaks; empty where nothing runs there."""
    run: Callable[[Say], Awaitable[ProbeResult]]
    """Cancelled, it ends everything on every node; it may still answer. Raises :class:`ProbeRefused`."""
    risk: str = ""
    """Cost and risk for the job."""
    nodes: tuple[str, ...] = ()
    """Nodes on which it runs."""
    signals: bool = False
    """It ends or continues processes: somebody must say yes, also where no job runs."""


def plain(lines: Iterable[Line]) -> Iterable[str]:
    """The lines without their shades."""
    return ("".join(text for text, _ in line) for line in lines)


def text_lines(lines: Iterable[str]) -> tuple[Line, ...]:
    """Lines without shades."""
    return tuple([(line, "")] for line in lines)


def mark(*, good: bool) -> Piece:
    """Begins the line of something that went well or not."""
    return ("✓ ", "good") if good else ("✗ ", "bad")


def nodes_of(session: ProbeSession, job: Job) -> tuple[list[NodeAccess], dict[str, str]]:
    """Nodes of a job that can take part in a probe, and why the others cannot."""
    there: list[NodeAccess] = []
    absent: dict[str, str] = {}
    for name, node in sorted(job.nodes.items()):
        try:
            there.append(NodeAccess(name, session.transport(name), session.python(name), address_of(job, node)))
        except TransportError as error:
            absent[name] = node.why or str(error)
    return there, absent


def table(heads: Sequence[str], rows: Iterable[Sequence[Piece | str]]) -> Iterator[Line]:
    """Rows below their heads: the first and the last column to the left, the others to the right. Nothing for none."""
    cells = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    if not cells:
        return
    titles: list[Piece] = [(head, "dim") for head in heads]
    lines: list[Line] = [titles, *cells]  # type: ignore[list-item]
    widths = [max(len(line[column][0]) for line in lines) for column in range(len(heads))]
    last = len(heads) - 1
    for line in lines:
        yield [
            (text.ljust(width) + "  " if column == 0 else text if column == last else text.rjust(width) + "  ", shade)
            for column, ((text, shade), width) in enumerate(zip(line, widths, strict=True))
        ]


def pair_lines(pairs: Sequence[ProbePair], most: int = 32) -> Iterator[Line]:
    """What two nodes reach together, the slowest pair first: a bad node is in all of the first ones."""
    slowest = sorted(pairs, key=lambda pair: pair.busbw or 0.0)
    yield from table(("pair", "GB/s", ""), [
        (f"{pair.a} - {pair.b}", text_or_dash(pair.busbw, "{:.3g}".format), (pair.error, "bad"))
        for pair in slowest[:most]
    ])  # fmt: skip
    if len(pairs) > most:
        yield [(f"and {len(pairs) - most} faster pairs", "dim")]


def text_or_dash(value: float | None, text: Callable[[float], str]) -> str:
    """A figure as text; a dash for what was not measured."""
    return "–" if value is None else text(value)


def cancelled(title: str) -> ProbeResult:
    """The result of a probe that somebody stopped; by then nothing is left on the nodes."""
    return ProbeResult(title, "cancelled", "stopped on request")
