"""Answers of probes as text: the outcome, figures, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.phrasing import outcome_words
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from hangtop.session.probes import ProbeResult

LONGEST = 600
"""Characters of a proof that are told."""
SEVERITY = {"critical": Tone.BAD, "warning": Tone.WARN, "info": Tone.INFO}
TONES: Mapping[str, Tone] = {
    "": Tone.TEXT, "dim": Tone.DIM, "strong": Tone.STRONG, "good": Tone.OK, "middling": Tone.WARN, "bad": Tone.BAD,
    "accent": Tone.ACCENT,
}  # fmt: skip
"""Shades of probes' lines."""


def plain(lines: Iterable[str], tone: Tone = Tone.TEXT) -> Content:
    """Lines of remote text."""
    return [[(harmless(line), tone)] for text in lines for line in (text.splitlines() or [""])]


def toned(lines: Iterable[Sequence[tuple[str, str]]]) -> Content:
    """Lines of pieces with the session's shades."""
    return [[(harmless(text), TONES.get(shade, Tone.TEXT)) for text, shade in line] for line in lines]


def findings_text(found: Iterable[Finding]) -> Content:
    """Findings: what, where, proof, advice; each whole, as dialogs break lines for the width that they have."""
    content: Content = []
    for finding in found:
        content += [[]] if content else []
        content.append([(finding.kind, SEVERITY[finding.severity]), (f"  {finding.certainty}", Tone.DIM)])
        content += plain([finding.summary])
        for piece in finding.evidence[:4]:
            text = harmless(piece.text)
            told = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
            content.append([(f"  {harmless(piece.source)}  ", Tone.DIM), (told, Tone.TEXT)])
        if finding.advice:
            content.append([("  → ", Tone.INFO), (harmless(finding.advice), Tone.INFO)])
    return content


def answer_text(result: ProbeResult) -> Content:
    """A probe's result: the outcome, figures, and what was found."""
    summary = f"  {harmless(result.summary)}"
    head: Content = [[(outcome_words(result.outcome).upper(), Tone.STRONG), (summary, Tone.TEXT)], []]
    return [*head, *toned(result.lines), [], *findings_text(result.findings)]
