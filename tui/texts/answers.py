"""Answers of probes as text: the outcome, figures, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.phrasing import outcome_words
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Content

LONGEST = 600
"""Characters of a proof that are told."""
SEVERITY = {"critical": Tone.BAD, "warning": Tone.WARN, "info": Tone.INFO}
TONES: Mapping[str, Tone] = {
    "": Tone.TEXT, "text": Tone.TEXT, "dim": Tone.DIM, "strong": Tone.STRONG,
    "good": Tone.OK, "middling": Tone.WARN, "bad": Tone.BAD,
    "compute": Tone.OK, "exposed": Tone.BAD, "copy": Tone.WARN, "data": Tone.ACCENT, "idle": Tone.DIM,
}  # fmt: skip
"""Shades of probes' lines, and parts of traces."""


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


def answer_text(outcome: str, summary: str, lines: Content, found: Iterable[Finding]) -> Content:
    """An answer as every probe shows it."""
    head: Content = [[(outcome_words(outcome).upper(), Tone.STRONG), (f"  {harmless(summary)}", Tone.TEXT)], []]
    return [*head, *lines, [], *findings_text(found)]
