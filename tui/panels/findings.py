"""Panel 7: findings with their evidence, certainty, advice and next keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import Finding, Observer
from hangtop.diagnosis.phrasing import count, folded, folded_names, outcome_words
from hangtop.diagnosis.unnumbered import numbered
from tui.looks.signs import SEVERITIES
from tui.looks.theme import Colour
from tui.panels.base import Panel, Place, Selection
from tui.panels.logs import Proof
from tui.panels.table_panel import TablePanel, TableSpec, counts
from tui.texts.findings import finding_text
from tui.view_model import ViewModel
from tui.widgets.columns import Column
from tui.widgets.lines import Content, Move, Piece, text_of

_LINE = re.compile(r"(.+):(\d+)$")


class FindingsPanel(TablePanel[Finding]):
    """The list of findings above, the evidence of the current one below."""

    def draw_details(self) -> None:
        """Draw the evidence in the lines that the list leaves, and below it the unknown sources."""
        verdict, content = self.model.session.verdict, self._proof()
        gaps = verdict.unknown if verdict is not None else ()
        content += [[], [(" not known", Colour.DIM)]] if gaps else []
        for gap in gaps:
            content.append([(f"   {gap.source} on {folded_names(gap.nodes) or 'all nodes'}: {gap.why}", Colour.DIM)])
        self.more.show(content)

    def _proof(self) -> Content:
        """Evidence of the current finding; for the first finding, with the wait tree."""
        row, waits = self.table.current, self.model.waits
        if row is None:
            return []
        return finding_text(row, waits if row is next(iter(_rows(self.model)), None) and len(waits) > 1 else ())

    def move(self, how: Move) -> None:
        """Move the cursor; left and right scroll the evidence."""
        if how in ("left", "right"):
            step = self.more.size.height // 2 or 1
            self.more.scroll_to(y=self.more.top + (step if how == "right" else -step), animate=False)
        else:
            super().move(how)

    def selection(self) -> Selection:
        """The current finding; its evidence is the text to copy, and its details."""
        proof = text_of(self._proof())
        chosen = super().selection()
        return replace(chosen, facts=[("", proof)] if proof else [], text=proof)


def _columns(model: ViewModel) -> Sequence[Column[Finding]]:
    """Severity, kind, certainty, place, summary and cause."""
    del model
    return (
        Column("severity", "", 1, lambda row: row.severity, lambda row: SEVERITIES[row.severity]),
        Column("kind", "finding", 12, lambda row: row.kind, most=28, colour=Colour.STRONG),
        Column("sure", "sure", 8, lambda row: row.certainty,
               help="proven, likely or possible"),
        Column("where", "where", 8, where, colour=Colour.INFO, most=24),
        Column("summary", "summary", 20, lambda row: row.summary, most=1000),
        Column("cause", "follows from", 22, lambda row: row.cause or None, colour=Colour.DIM, most=22),
    )  # fmt: skip


def _rows(model: ViewModel) -> Sequence[Finding]:
    return model.session.verdict.findings if model.session.verdict is not None else ()


def _why_none(model: ViewModel) -> str:
    verdict = model.session.verdict
    if verdict is None:
        return "no verdict yet: it takes a few seconds"
    unknown = verdict.outcome == "unknown"
    how = "too little is known for a verdict" if unknown else f"the job is {outcome_words(verdict.outcome)}"
    return f"nothing found: {how}"


def _totals(model: ViewModel, rows: Sequence[Finding]) -> list[Piece]:
    """Numbers of causes by severity, of consequences, and of sources that could not be read."""
    verdict = model.session.verdict
    if verdict is None:
        return [(" no verdict yet", Colour.STRONG)]
    causes = Counter[str](row.severity for row in rows if not row.cause)
    follow, gaps = len(rows) - causes.total(), len(verdict.unknown)
    signs = [(causes[severity], severity, *sign) for severity, sign in SEVERITIES.items()]
    return [
        (f" {count(causes.total(), 'finding')}", Colour.STRONG),
        *counts([(number, f"{glyph} {number} {severity}", colour) for number, severity, glyph, colour in signs]),
        *counts(
            [
                (follow, count(follow, "consequence"), Colour.DIM),
                (gaps, f"{count(gaps, 'source')} could not be read", Colour.WARN),
            ]
        ),
    ]


def key_of(finding: Finding) -> Hashable:
    """Identity of a finding: kind and place."""
    return finding.kind, where(finding)


def where(finding: Finding) -> str:
    """Ranks, else GPUs, ports or nodes, folded."""
    if finding.ranks:
        several = "s" if len(finding.ranks) > 1 else ""
        ranks = f"{f'rank{several} ' if numbered(finding.ranks) else ''}{folded(finding.ranks)}"
        return f"{ranks} {finding.nodes[0]}" if len(finding.nodes) == 1 else ranks
    return " ".join((*finding.gpus, *finding.ports) or finding.nodes) or "the job"


def proof_of(finding: Finding) -> Place:
    """The place that shows a finding's evidence: by its first piece of evidence, else by what the finding names."""
    for evidence in finding.evidence:
        if evidence.observer is Observer.STACKS:
            return Place("stacks", "", next(iter(finding.ranks), None))
        if evidence.observer is Observer.LOG and not finding.ports:
            line = _LINE.match(evidence.source)
            source, number = (line[1], int(line[2])) if line is not None else (evidence.source, 0)
            return Place("logs", "", Proof(source, number, evidence.text))
    if finding.ports:
        node, _, port = finding.ports[0].partition(":")
        return Place("fabric", "", (node, port))
    if finding.gpus:
        node, _, index = finding.gpus[0].partition(":")
        return Place("gpus", "", (node, int(index) if index.isdecimal() else index))
    if finding.ranks:
        return Place("ranks", "", finding.ranks[0])
    return Place("nodes", "", finding.nodes[0] if finding.nodes else None)


FINDINGS = TableSpec(
    name="findings",
    noun="finding",
    columns=_columns,
    rows=_rows,
    key=key_of,
    node=lambda row: next(iter(row.nodes), None),
    ranks=lambda _, row: set(row.ranks),
    stale=lambda _, row: False,  # noqa: ARG005 (the verdict is always fresh)
    facts=lambda _, row: (row.kind, []),
    enter=lambda _, row: proof_of(row),
    # a new verdict moves the cursor to its first finding
    blamed=lambda model: next((key_of(row) for row in _rows(model)), None),
    totals=_totals,
    empty=_why_none,
    frozen=1,
)


def findings_panel(model: ViewModel) -> Panel:
    """Panel 7."""
    return FindingsPanel(model, FINDINGS)
