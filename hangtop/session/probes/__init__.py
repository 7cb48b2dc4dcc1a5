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


BARS = "▁▂▃▄▅▆▇█"
CELL = 8
LEGEND = f"pairs, GB/s; {BARS[-1]} as fast as the best pair, {BARS[0]} an eighth of it or less, × failed"


def matrix(pairs: Sequence[ProbePair]) -> Iterator[Line]:
    """The bandwidth of every pair of nodes: a bad node is a bad row and column, a bad link a single cell.

    Rows and columns are nodes, each pair in two cells. Nothing for fewer than two pairs.
    """
    if len(pairs) < 2:
        return
    names = sorted({name for pair in pairs for name in (pair.a, pair.b)})
    cells = {key: pair for pair in pairs for key in ((pair.a, pair.b), (pair.b, pair.a))}
    best = max(pair.busbw or 0.0 for pair in pairs)
    width = max(map(len, names))
    yield []
    yield [(LEGEND, "dim")]
    yield [(" " * width + "".join(name[1 - CELL :].rjust(CELL) for name in names), "dim")]
    for name in names:
        yield [(name.ljust(width), ""), *(_cell(cells.get((name, other)), best, name == other) for other in names)]


def _cell(pair: ProbePair | None, best: float, same: bool) -> Piece:
    if pair is None:
        return (" " if same else "·").rjust(CELL), "dim"
    if pair.busbw is None:
        return "×".rjust(CELL), "bad"
    share = pair.busbw / best if best else 0.0
    bar = BARS[min(len(BARS) - 1, max(0, int(share * len(BARS) - 1e-9)))]
    shade: Shade = "good" if share >= 2 / 3 else "middling" if share >= 1 / 3 else "bad"
    digits = 0 if pair.busbw >= 10 else 1 if pair.busbw >= 1 else 2
    return f"{bar} {pair.busbw:.{digits}f}".rjust(CELL), shade


def text_or_dash(value: float | None, text: Callable[[float], str]) -> str:
    """A figure as text; a dash for what was not measured."""
    return "–" if value is None else text(value)


def cancelled(title: str) -> ProbeResult:
    """The result of a probe that somebody stopped; by then nothing is left on the nodes."""
    return ProbeResult(title, "cancelled", "stopped on request")
