"""Panel 7: what the diagnosis found, with its proof, how sure it is, what to do and what to press next."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.strip import Strip

from hangtop.diagnosis.finding import Finding, WaitBox
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import folded, outcome_words, rank_text
from hangtop.diagnosis.unnumbered import numbered
from tui.looks.format import UNKNOWN, clock, plural
from tui.looks.names import WHOLE, ShortNames
from tui.looks.signs import SEVERITIES
from tui.looks.text import wrap
from tui.looks.theme import Tone
from tui.panels.base import Fact, Place
from tui.panels.logs import Proof
from tui.panels.table_panel import TablePanel
from tui.scene import Scene
from tui.waits import wait_lines
from tui.widgets.breaking import broken
from tui.widgets.lines import Lines, Move, Piece, strip_of
from tui.widgets.table import Column

COPIED_WIDTH = 120
"""Cells of a line of a proof that is copied."""

_LINE = re.compile(r"(.+):(\d+)$")
_RANK = re.compile(r"\brank (\d+)\b")


class FindingRow(NamedTuple):
    """A finding and its place: the first is the root cause."""

    place: int
    finding: Finding


class Proofs(Lines, can_focus=False):
    """The finding under the cursor in full."""

    def __init__(self) -> None:
        super().__init__(id="proofs")
        self._lines: list[list[Piece]] = []
        self._told_of: tuple[Finding | None, Sequence[str], Sequence[WaitBox]] = None, (), ()

    def show(self, finding: Finding | None, unknown: Sequence[str], chain: Sequence[WaitBox] = ()) -> None:
        """Lay out a finding; ``chain`` is who waits for whom."""
        self._told_of = finding, unknown, chain
        self._lay_out()

    def resized(self) -> None:
        """Lay out for another size."""
        self._lay_out()

    def _lay_out(self) -> None:
        if not self.size.width:
            return
        finding, unknown, chain = self._told_of
        width = max(20, self.size.width - 2)
        lines = [] if finding is None else _told(finding, width, chain)
        if unknown:
            lines += [[], [(" not known", Tone.DIM)]]
            lines += [[(f"   {text}", Tone.DIM)] for entry in unknown for text in wrap(entry, width - 3)]
        if lines != self._lines:
            self._lines = lines
            self.resize_to(len(lines))
        self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        place = self.top + y
        return strip_of(self._lines[place] if place < len(self._lines) else [], width, self.ink)


def _told(finding: Finding, width: int, chain: Sequence[WaitBox] = (), *, pasted: bool = False) -> list[list[Piece]]:
    """Lines of a finding; its commands are whole where they are to be ``pasted`` elsewhere."""
    glyph, tone = SEVERITIES[finding.severity]
    sure = finding.certainty
    lines: list[list[Piece]] = [
        [(f" {glyph} {finding.kind}", tone), (f"   {finding.severity}, {sure}", Tone.DIM)],
        *[[(f"   {text}", Tone.STRONG)] for text in wrap(finding.summary, width - 3)],
    ]
    if finding.cause:
        lines.append([(f"   a consequence of {finding.cause}", Tone.DIM)])
    if finding.advice:
        lines += [[], *[[(f"   {text}", Tone.TEXT)] for text in wrap(finding.advice, width - 3)]]
    if chain:
        lines += [[], [("   who waits for whom", Tone.DIM)]]
        for one in wait_lines(chain):
            head: list[Piece] = [(f"     {one.head}", Tone.DIM), (one.text, Tone.BAD if one.blamed else Tone.TEXT)]
            lines += broken(head, width)
    for evidence in finding.evidence:
        when = "" if evidence.at is None else f"  {clock(evidence.at, millis=False)}"
        lines += [[], [(f"   {evidence.source}", Tone.INFO), (when, Tone.DIM)]]
        lines += [[(f"     {text}", Tone.TEXT)] for text in wrap(evidence.text, width - 5)]
    if finding.next:
        lines += [[], [("   next", Tone.DIM)]]
        for step in finding.next:
            line: list[Piece] = [(f"     {step.key:<6}", Tone.ACCENT), (step.command, Tone.TEXT)]
            lines += [line] if pasted else broken(line, width)
    return lines


class FindingsPanel(TablePanel[FindingRow]):
    """The list above, the proof below."""

    NAME = "findings"
    CAN = frozenset({"filter", "sort", "columns", "enter", "copy", "details", "node", "ranks"})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.proofs = Proofs()

    def compose(self) -> ComposeResult:
        """Totals, the list, the proof."""
        yield from super().compose()
        yield self.proofs

    def columns(self) -> Sequence[Column[FindingRow]]:
        """How bad, what, how sure, where, in one line."""
        return (
            Column("severity", "", 1, lambda row: row.finding.severity,
                   lambda row: SEVERITIES[row.finding.severity]),
            Column("kind", "finding", 12, lambda row: row.finding.kind, most=28, tone=Tone.STRONG),
            Column("sure", "sure", 8, lambda row: row.finding.certainty,
                   help="proven, likely or possible: by how many witnesses"),
            Column("where", "where", 8, lambda row: where(row.finding), tone=Tone.INFO, most=24,
                   brief=lambda row: where(row.finding, self.scene.names)),
            Column("summary", "summary", 30, lambda row: row.finding.summary, grow=5, least=20),
            Column("cause", "follows from", 22, lambda row: row.finding.cause or None, tone=Tone.DIM, most=22),
        )  # fmt: skip

    def rows(self) -> Sequence[FindingRow]:
        """All findings, the root cause first."""
        verdict = self.scene.session.verdict
        if verdict is None:
            self.table.empty = "no verdict yet: it takes a few looks"
            return ()
        unknown = verdict.outcome == "unknown"
        how = "too little is known to say how the job is" if unknown else f"the job is {outcome_words(verdict.outcome)}"
        self.table.empty = f"nothing found: {how}"
        return [FindingRow(place, finding) for place, finding in enumerate(verdict.findings)]

    def blamed(self) -> Hashable:
        """The root cause: under a new verdict nobody should read on about what was found before."""
        verdict = self.scene.session.verdict
        return key_of(verdict.findings[0]) if verdict is not None and verdict.findings else None

    def key(self, row: FindingRow) -> Hashable:
        """Kind and where."""
        return key_of(row.finding)

    def is_stale(self, row: FindingRow) -> bool:  # noqa: ARG002 (a finding is as old as the verdict)
        """Never: the verdict is made anew all the time."""
        return False

    def _draw_around(self) -> None:
        super()._draw_around()
        self._prove()

    def _draw_details(self) -> None:
        """The proof has the lines that the list leaves."""

    def _prove(self) -> None:
        row, verdict = self.table.current, self.scene.session.verdict
        unknown = [] if verdict is None else [
            f"{gap.source} on {folded_names(gap.nodes) or 'all nodes'}: {gap.why}" for gap in verdict.unknown
        ]  # fmt: skip
        self.proofs.show(None if row is None else row.finding, unknown, self._chain())

    def _chain(self) -> tuple[WaitBox, ...]:
        """Who waits for whom, beside the finding that the verdict rests on."""
        row, verdict = self.table.current, self.scene.session.verdict
        if row is None or verdict is None or row.place != 0 or len(verdict.waits) < 2:
            return ()
        return verdict.waits

    def move(self, how: Move) -> None:
        """Move the cursor; left and right scroll the proof."""
        if how in ("left", "right"):
            step = self.proofs.size.height // 2 or 1
            self.proofs.scroll_to(y=self.proofs.top + (step if how == "right" else -step), animate=False)
        else:
            super().move(how)

    def totals(self) -> list[Piece]:
        """How many of which severity; what could not be read."""
        verdict = self.scene.session.verdict
        if verdict is None:
            return [(" no verdict yet", Tone.STRONG)]
        found = [row.finding for row in self.table.rows] if self.narrowed() else verdict.findings
        pieces = self.shown_of("finding") or [(f" {plural(len(found), 'finding')}", Tone.STRONG)]
        for severity, (glyph, tone) in SEVERITIES.items():
            times = sum(finding.severity == severity and not finding.cause for finding in found)
            if times:
                words = plural(times, severity) if severity == "warning" else f"{times} {severity}"
                pieces += [("   ", Tone.DIM), (f"{glyph} {words}", tone)]
        consequences = sum(bool(finding.cause) for finding in found)
        if consequences:
            pieces += [("   ", Tone.DIM), (plural(consequences, "consequence"), Tone.DIM)]
        if verdict.unknown:
            pieces += [("   ", Tone.DIM), (f"{plural(len(verdict.unknown), 'source')} could not be read", Tone.WARN)]
        return pieces

    def enter(self) -> Place | None:
        """To the rank, port or line that proves it."""
        row = self.table.current
        return None if row is None else proof_of(row.finding, self.scene)

    def node(self) -> str | None:
        """First node that the finding names."""
        row = self.table.current
        return row.finding.nodes[0] if row is not None and row.finding.nodes else None

    def chosen_ranks(self) -> set[int]:
        """Ranks that the finding names."""
        row = self.table.current
        return set() if row is None else set(row.finding.ranks)

    def text(self) -> str:
        """The proof of the finding under the cursor."""
        row = self.table.current
        if row is None:
            return ""
        lines = _told(row.finding, COPIED_WIDTH, self._chain(), pasted=True)
        return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)

    def details(self) -> tuple[str, list[Fact]] | None:
        """The finding, to be read at leisure."""
        row = self.table.current
        if row is None:
            return None
        finding = row.finding
        return finding.kind, [
            ("summary", finding.summary),
            ("where", where(finding)),
            ("advice", finding.advice or UNKNOWN),
            *[(evidence.source, evidence.text) for evidence in finding.evidence],
            *[(step.key, step.command) for step in finding.next],
        ]


def key_of(finding: Finding) -> Hashable:
    """What a finding is known by: kind and where."""
    return finding.kind, where(finding)


def where(finding: Finding, names: ShortNames = WHOLE) -> str:
    """Ranks, else GPUs, ports or nodes, folded."""
    if finding.ranks:
        several = "s" if len(finding.ranks) > 1 else ""
        ranks = f"{f'rank{several} ' if numbered(finding.ranks) else ''}{folded(finding.ranks)}"
        return f"{ranks} {names.of(finding.nodes[0])}" if len(finding.nodes) == 1 else ranks
    return " ".join((*finding.gpus, *finding.ports) or names.all(finding.nodes)) or "the job"


def proof_of(finding: Finding, scene: Scene) -> Place:
    """Where the proof of a finding is to be seen: what its first evidence names, else whom it names."""
    for evidence in finding.evidence:
        source = evidence.source.strip()
        if source.startswith(("py-spy", "stack")):
            named = _RANK.search(source)
            rank = int(named[1]) if named else finding.ranks[0] if finding.ranks else None
            return Place("stacks", "", rank, "" if rank is None else rank_text(rank))
        line = _LINE.match(source)
        if line is not None and not finding.ports:
            return Place("logs", "", Proof(line[1], int(line[2]), evidence.text), source)
        if source in {"dmesg", "journal", "nvml"} or source.startswith("kernel"):
            return Place("logs", "", Proof(source, 0, evidence.text), source)
    if finding.ports:
        node, _, port = finding.ports[0].partition(":")
        return Place("fabric", "", (node, port), finding.ports[0])
    if finding.gpus:
        node, _, index = finding.gpus[0].partition(":")
        return Place("gpus", "", (node, int(index) if index.isdecimal() else index), finding.gpus[0])
    if finding.ranks:
        has_stack = any(finding.ranks[0] == rank for rank in dumped(scene))
        return Place("stacks" if has_stack else "ranks", "", finding.ranks[0], rank_text(finding.ranks[0]))
    return Place("nodes", "", finding.nodes[0] if finding.nodes else None, " ".join(finding.nodes[:1]))


def dumped(scene: Scene) -> set[int]:
    """Ranks of which there is a stack."""
    pids = {(node, dump.rank_pid) for node, dump in scene.state.stacks}
    return {row.number for row in scene.ranks if (row.node.name, row.rank.process.pid) in pids}
