"""Findings and answers of probes as text: summary, advice, evidence, next keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Finding, WaitBox
from hangtop.diagnosis.phrasing import outcome_words
from hangtop.diagnosis.verdict.wait_tree import tree_rows
from tui.looks.format import clock
from tui.looks.signs import SEVERITIES
from tui.looks.theme import Colour
from tui.view_model import letter_of
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from hangtop.session.probes import ProbeResult

MOST = 64
"""Most boxes of a wait tree that are listed."""


def plain(lines: Iterable[str]) -> Content:
    """Lines of remote text."""
    return [[(line, Colour.TEXT)] for text in lines for line in (text.splitlines() or [""])]


def wait_tree(boxes: Sequence[WaitBox]) -> Content:
    """One line per wait box: a box that holds up others, and below it the boxes that wait for it; at most 64."""
    lines: Content = []
    for row in tree_rows(boxes, MOST):
        colour = Colour.BAD if boxes[row.place].blamed else Colour.TEXT
        text = f"{letter_of(row.place)} {row.text}"
        lines.append([(f" {row.head}", Colour.DIM), (text, colour)])
    return lines


def finding_text(finding: Finding, chain: Sequence[WaitBox] = ()) -> Content:
    """One finding; ``chain`` are the wait boxes to show with it. Lines are not wrapped."""
    glyph, colour = SEVERITIES[finding.severity]
    lines: Content = [
        [(f" {glyph} {finding.kind}", colour), (f"   {finding.severity}, {finding.certainty}", Colour.DIM)],
        *[[(f"   {line}", Colour.STRONG)] for line in finding.summary.splitlines()],
    ]
    if finding.cause:
        lines.append([(f"   a consequence of {finding.cause}", Colour.DIM)])
    if finding.advice:
        lines += [[], *[[(f"   {line}", Colour.TEXT)] for line in finding.advice.splitlines()]]
    if chain:
        lines += [[], [("   which ranks wait for which", Colour.DIM)]]
        lines += [[("    ", Colour.DIM), *line] for line in wait_tree(chain)]
    for evidence in finding.evidence:
        when = "" if evidence.at is None else f"  {clock(evidence.at)}"
        lines += [[], [(f"   {evidence.source}", Colour.INFO), (when, Colour.DIM)]]
        lines += [[(f"     {line}", Colour.TEXT)] for line in evidence.text.splitlines()]
    if finding.next:
        lines += [[], [("   next", Colour.DIM)]]
        lines += [[(f"     {step.key:<6}", Colour.ACCENT), (step.command, Colour.TEXT)] for step in finding.next]
    return lines


def findings_text(found: Iterable[Finding]) -> Content:
    """Several findings."""
    return [line for finding in found for line in ([], *finding_text(finding))][1:]


def answer_text(result: ProbeResult) -> Content:
    """A probe's result: outcome, figures, unknown nodes, and findings."""
    head: Content = [[(outcome_words(result.outcome).upper(), Colour.STRONG), (f"  {result.summary}", Colour.TEXT)], []]
    lines = [*result.lines, *(f"unknown for {', '.join(unknown.nodes)}: {unknown.why}" for unknown in result.unknown)]
    return [*head, *plain(lines), [], *findings_text(result.findings)]
