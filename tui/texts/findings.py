"""Findings, and answers of probes, as text: what, where, proof, what to do, what to press next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Finding, Verdict, WaitBox
from hangtop.diagnosis.phrasing import outcome_words
from tui.looks.format import clock, plural, ranks_word
from tui.looks.signs import SEVERITIES
from tui.looks.text import harmless
from tui.looks.theme import Colour
from tui.view_model import ViewModel
from tui.waits import wait_lines
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from hangtop.session.probes import ProbeResult

EVIDENCE = 3
"""Pieces of evidence of the first finding that are copied."""
SHADES: Mapping[str, Colour] = {
    "": Colour.TEXT, "dim": Colour.DIM, "strong": Colour.STRONG, "accent": Colour.ACCENT,
    "good": Colour.OK, "middling": Colour.WARN, "bad": Colour.BAD,
}  # fmt: skip
"""Shades of probes' lines."""


def plain(lines: Iterable[str], colour: Colour = Colour.TEXT) -> Content:
    """Lines of remote text."""
    return [[(line, colour)] for text in lines for line in (text.splitlines() or [""])]


def finding_text(finding: Finding, chain: Sequence[WaitBox] = ()) -> Content:
    """One finding; ``chain`` is who waits for whom. Lines are whole: whoever shows them breaks them."""
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
        lines += [[], [("   who waits for whom", Colour.DIM)]]
        for one in wait_lines(chain):
            lines.append([(f"     {one.head}", Colour.DIM), (one.text, Colour.BAD if one.blamed else Colour.TEXT)])
    for evidence in finding.evidence:
        when = "" if evidence.at is None else f"  {clock(evidence.at, millis=False)}"
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
    """A probe's result: the outcome, figures, and what was found."""
    head: Content = [[(outcome_words(result.outcome).upper(), Colour.STRONG), (f"  {result.summary}", Colour.TEXT)], []]
    lines = [[(text, SHADES.get(shade, Colour.TEXT)) for text, shade in line] for line in result.lines]
    return [*head, *lines, [], *findings_text(result.findings)]


def verdict_text(verdict: Verdict, model: ViewModel) -> str:
    """The verdict as it is pasted into a chat at night: what, when, the root cause with its proof, the rest by name."""
    count = model.count
    whole = "" if count.world_size is None else f" of {count.world_size:,}"
    nodes = f"{count.nodes_up:,} of {plural(count.nodes, 'node')} up"
    ranks = f"{count.ranks_alive:,}{whole} {ranks_word(count.ranks_alive, count.world_size)} alive"
    when = time.strftime("%F %T %Z", time.localtime(model.now))
    lines = [f"{outcome_words(verdict.outcome).upper()}: {verdict.summary}", f"{when}, {nodes}, {ranks}"]
    for finding in verdict.findings[:1]:
        lines.append(f"{finding.kind} ({finding.severity}, {finding.certainty}): {finding.summary}")
        lines += [f"- {one.source}: {one.text}" for one in finding.evidence[:EVIDENCE]]
        lines += [finding.advice] if finding.advice else []
        lines += [f"$ {step.command}" for step in finding.next[:1]]
    if others := [finding.kind for finding in verdict.findings[1:]]:
        lines.append(f"also: {', '.join(others)}")
    if verdict.unknown:
        lines.append(f"not known: {', '.join(dict.fromkeys(gap.source for gap in verdict.unknown))}")
    return "\n".join(harmless(line.replace("\n", " · ")) for line in lines)
