"""The answer of a command: JSON for scripts (``docs/findings.md``), text for people, and the exit code."""

from __future__ import annotations

import functools
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, TextIO

import click

from collectors.node import redact
from hangtop.diagnosis.finding import Finding, Verdict, WaitBox
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import count, listed, outcome_words
from hangtop.diagnosis.unnumbered import numbered, unnumbered
from hangtop.diagnosis.verdict.wait_tree import tree_rows

SCHEMA = 2
EVIDENCE_SHOWN, LINES_SHOWN = 4, 12
"""Most pieces of evidence per finding in the text, and most lines of each; the JSON has all."""
WIDTH = 120

COLOURS: dict[str, str] = {"critical": "red", "warning": "yellow", "info": "cyan"}
OUTCOMES: Final[Mapping[str, tuple[str, int]]] = {
    "hung": ("red", 1),
    "crashed": ("red", 1),
    "at_risk": ("red", 1),
    "waiting": ("yellow", 6),
    "slow": ("yellow", 1),
    "starting": ("cyan", 5),
    "unknown": ("yellow", 5),
    "healthy": ("green", 0),
    "idle": ("green", 0),
}
"""Colour and exit code of each verdict: 0 well, 1 a fault, 5 undecided, 6 waiting (docs/findings.md)."""
UNREACHABLE = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict and its job."""

    verdict: Verdict
    job: Job
    took: float
    """Seconds from the question to this answer."""

    @property
    def exit_code(self) -> int:
        """The verdict's exit code, or 3 if no node could be reached."""
        if self.job.live and self.job.nodes and all(n.seen_at is None for n in self.job.nodes.values()):
            return UNREACHABLE
        return OUTCOMES[self.verdict.outcome][1]


# --- for scripts -------------------------------------------------------------------------------------------------


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer as plain JSON types, as in ``docs/findings.md``."""
    verdict, job = answer.verdict, answer.job
    ranks_of: dict[str, list[int]] = {}
    for rank in job.ranks:
        if rank.rank >= 0:
            ranks_of.setdefault(rank.node, []).append(rank.rank)
    since = job.motion.stands_since if verdict.outcome == "hung" and job.live else None
    return {
        "schema": SCHEMA,
        "taken_at": _time(job.now),
        "took_s": round(answer.took, 1),
        "verdict": verdict.outcome,
        "summary": verdict.summary,
        "motion": {
            "moving": job.motion.moving, "proof": job.motion.proof, "last_step": job.motion.last_step,
            "last_step_at": _time(job.motion.last_step_at),
        },
        "stands_since": _time(since),
        "job": {
            "world_size": job.world_size,
            "ranks_seen": sum(map(len, ranks_of.values())),
            "processes_unnumbered": [f"{rank.node}:{rank.process.pid}" for rank in job.unnumbered],
            "nodes": [_node(node, ranks_of.get(name, [])) for name, node in job.nodes.items()],
        },
        "findings": [_finding(finding) for finding in verdict.findings],
        "unknown": [{"source": u.source, "nodes": list(u.nodes), "why": u.why} for u in verdict.unknown],
        "waits": [_box(box) for box in verdict.waits],
    }  # fmt: skip


def _time(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _node(node: Node, ranks: list[int]) -> dict[str, Any]:
    state = {"live": "live", "limited": "limited", "offline": "live"}.get(node.link, "lost")
    return {"name": node.name, "state": state, "why": node.why, "ranks": ranks, "gpus": len(node.gpus)}


def _ranks(ranks: Sequence[int]) -> dict[str, Any]:
    return {"ranks": list(numbered(ranks)), "processes": [str(process) for process in unnumbered(ranks)]}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind, "severity": finding.severity, "certainty": finding.certainty,
        "confidence": finding.confidence, "summary": finding.summary, **_ranks(finding.ranks),
        "nodes": list(finding.nodes), "gpus": list(finding.gpus), "ports": list(finding.ports),
        "evidence": [{"source": e.source, "at": _time(e.at), "text": e.text} for e in finding.evidence],
        "advice": finding.advice, "next": [{"key": n.key, "command": n.command} for n in finding.next],
        "cause": finding.cause,
    }  # fmt: skip


def _box(box: WaitBox) -> dict[str, Any]:
    return {
        **_ranks(box.ranks), "nodes": list(box.nodes), "doing": box.doing, "blamed": box.blamed,
        "waits_for": list(box.waits_for), "operation": box.operation,
    }  # fmt: skip


# --- for people --------------------------------------------------------------------------------------------------


def as_text(answer: Answer, *, colour: bool) -> str:
    """The answer as text: the verdict first, then each finding with its evidence."""
    word = outcome_words(answer.verdict.outcome).upper()
    head = _paint(word, colour, fg=OUTCOMES[answer.verdict.outcome][0], bold=True) + "  " + answer.verdict.summary
    return "\n".join((head, _paint(_scope(answer), colour, dim=True), *finding_lines(answer, colour=colour))) + "\n"


def _paint(text: str, colour: bool, **style: Any) -> str:
    return click.style(text, **style) if colour else text


def finding_lines(answer: Answer, *, colour: bool) -> Iterator[str]:
    """Findings, the wait tree, and unknown sources; an empty line before each."""
    paint = functools.partial(_paint, colour=colour)
    verdict, now = answer.verdict, answer.job.now
    for number, finding in enumerate(verdict.findings, 1):
        yield ""
        kind = paint(finding.kind, fg=COLOURS[finding.severity], bold=True)
        sure = f"{finding.severity}, {finding.certainty}"
        yield f"{number}. {kind}  ({sure}{f', follows from {finding.cause}' if finding.cause else ''})"
        yield from _wrapped(finding.summary, "   ")
        for piece in finding.evidence[:EVIDENCE_SHOWN]:
            yield paint(f"   │ {piece.source}{_age(piece.at, now)}", dim=True)
            yield from (f"   │   {line}" for line in piece.text.splitlines()[:LINES_SHOWN])
        more = len(finding.evidence) - EVIDENCE_SHOWN
        if more > 0:
            yield paint(f"   │ … and {more} more (--json has all)", dim=True)
        if finding.advice:
            yield from _wrapped("→ " + finding.advice, "   ")
        yield from (f"   $ {step.command}" for step in finding.next)
    if len(verdict.waits) > 1:
        rows = tree_rows(verdict.waits)
        yield from ("", "which ranks wait for which:", *(f"   {row.head}{row.text}" for row in rows))
        if left := len(verdict.waits) - len(rows):
            yield f"   … and {count(left, 'more point')}"
    if verdict.unknown:
        yield from ("", "not known:")
        for unknown in verdict.unknown:
            where = f" on {listed(unknown.nodes)}" if unknown.nodes else ""
            yield from _wrapped(f"- {unknown.source}{where}: {unknown.why}", "  ")


def _scope(answer: Answer) -> str:
    """The numbers of nodes and ranks, and the time that the answer took."""
    job = answer.job
    took = f"; took {answer.took:.1f} s" if answer.took else ""
    if not job.live and not job.ranks:
        named = {*(event.rank for event in job.events), *(one.rank for one in job.recorders)} - {None}
        named.update(rank for finding in answer.verdict.findings for rank in finding.ranks)
        return f"the files name {count(len(named), 'rank') if named else 'no rank'}{took}"
    live = sum(n.readable for n in job.nodes.values())
    ranks, without = sum(rank.rank >= 0 for rank in job.ranks), len(job.unnumbered)
    world = job.world_size if ranks <= (job.world_size or 0) else None  # files of several jobs may name more
    of = "" if world is None else f" of {world:,}"
    parts = [f"{live:,} of {count(len(job.nodes), 'node')}"]
    parts += [f"{ranks:,}{of} {'rank' if (world or ranks) == 1 else 'ranks'}"] if ranks or not without else []
    parts += [f"{count(without, 'process', 'processes')} without a rank number"] if without else []
    parts += [f"watched {job.watched:.0f} s"] if job.live else []
    return f"{', '.join(parts)}{took}"


def _age(at: float | None, now: float) -> str:
    if at is None:
        return ""
    age = max(0.0, now - at)
    return f", {age:.0f} s ago" if age < 120 else f", {datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}"


def _wrapped(text: str, indent: str) -> list[str]:
    wrapped = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return wrapped or [indent.rstrip()]


def wants_colour(stream: TextIO) -> bool:
    """True for a terminal, unless NO_COLOR is set (no-color.org) or TERM is dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True)
class Reply:
    """A command's answer in both forms, with its exit code."""

    document: Mapping[str, Any]
    """For ``--json``."""
    lines: Iterable[str]
    """The text."""
    exit_code: int = 0


def reply_of(answer: Answer) -> Reply:
    """Make the reply of a command that gives a verdict."""
    return Reply(as_json(answer), as_text(answer, colour=wants_colour(sys.stdout)).splitlines(), answer.exit_code)


def finish(reply: Reply, *, as_json: bool) -> NoReturn:
    """Write a reply, and nothing else, to standard output, and end with its exit code."""
    if as_json:
        text = json.dumps({"schema": 1, **reply.document}, indent=2, ensure_ascii=False) + "\n"
    else:
        text = "".join(f"{line}\n" for line in reply.lines)
    encoding = sys.stdout.encoding or "utf-8"
    text = redact.shapes(text)  # people paste it elsewhere
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
    click.get_current_context().exit(reply.exit_code)
