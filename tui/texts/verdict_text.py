"""The verdict in ten lines, as it is pasted into a chat at night."""

from __future__ import annotations

import time

from hangtop import __version__
from hangtop.diagnosis.finding import Finding, Verdict
from hangtop.diagnosis.phrasing import outcome_words
from tui.looks.format import ranks_word
from tui.looks.text import harmless
from tui.scene import Scene

LINES = 10
EVIDENCE = 3
"""Pieces of evidence of the first finding."""
WIDTH = 200


def in_ten_lines(verdict: Verdict, scene: Scene) -> str:
    """What, since when it is looked at, the root cause with its proof, what to do; the rest by name."""
    count = scene.count
    when = time.strftime("%F %T %Z", time.localtime(scene.now))
    whole = "" if count.world_size is None else f" of {count.world_size:,}"
    nodes = f"{count.nodes_up:,} of {count.nodes:,} node{'' if count.nodes == 1 else 's'} up"
    ranks = f"{count.ranks_alive:,}{whole} {ranks_word(count.ranks_alive, count.world_size)} alive"
    lines = [
        f"{outcome_words(verdict.outcome).upper()}: {verdict.summary}",
        f"{when}, {nodes}, {ranks}, hangtop {__version__}",
    ]
    if verdict.findings:
        lines += _told(verdict.findings[0])
    others = [finding.kind for finding in verdict.findings[1:]]
    last = [f"also: {', '.join(others)}"] if others else []
    if verdict.unknown:
        last.append(f"not known: {', '.join(dict.fromkeys(gap.source for gap in verdict.unknown))}")
    kept = [*lines[: LINES - len(last)], *last]
    return "\n".join(harmless(line.replace("\n", " · "))[:WIDTH] for line in kept)


def _told(finding: Finding) -> list[str]:
    lines = [f"{finding.kind} ({finding.severity}, {finding.certainty}): {finding.summary}"]
    lines += [f"- {one.source}: {one.text}" for one in finding.evidence[:EVIDENCE]]
    if finding.advice:
        lines.append(finding.advice)
    return [*lines, *(f"$ {step.command}" for step in finding.next[:1])]
