"""Findings that hit several nodes, and what those nodes share: "all 6 lost nodes hang at one leaf (leaf12, scontrol)".

Said only where every node of the findings of one kind hangs at one thing and others of the job do not: what all nodes
share explains nothing. It is no finding of its own and makes none surer; it tells where to look first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed
from hangtop.diagnosis.places import BY_NAME, Shelf, places
from hangtop.diagnosis.tables.kinds import word_of

LEAST = 2
"""Nodes that make "several"."""
CHANCE = 0.1
"""Above this likelihood that it is mere chance, it is said and no advice is drawn from it."""
PLURALS = {"leaf": "leaves"}
NOUNS = {"node_unreachable": "lost nodes"}
"""What nodes of a kind are called; others are its nodes."""


def with_whereabouts(job: Job, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The same findings; the first of each kind says what all nodes of that kind share."""
    struck: dict[str, set[str]] = defaultdict(set)
    first: dict[str, int] = {}
    for place, finding in enumerate(findings):
        if finding.severity != "info" and word_of(finding.kind) != "none" and not finding.cause:
            struck[finding.kind].update(finding.nodes)
            first.setdefault(finding.kind, place)
    told = list(findings)
    for kind, nodes in struck.items():
        if len(nodes) >= LEAST and (shared := what_they_share(places(job), nodes)) is not None:
            told[first[kind]] = _said(told[first[kind]], shared)
    return tuple(told)


@dataclass(frozen=True, slots=True)
class Common:
    """What some nodes have in common and others of the job have not."""

    level: str
    names: tuple[str, ...]
    source: str
    nodes: tuple[str, ...]
    beside: tuple[str, ...]
    """Further nodes there, which are not struck."""
    elsewhere: int
    """Nodes of the job that are known to hang at something else."""

    @property
    def by_chance(self) -> float:
        """How likely as many nodes, drawn blindly, would all hang at one such thing, were all as large as this one."""
        here = len(self.nodes) + len(self.beside)
        every = here + self.elsewhere
        return min(1.0, comb(here, len(self.nodes)) / comb(every, len(self.nodes)) * every / here)


def what_they_share(known: Mapping[str, Mapping[str, Shelf]], nodes: Iterable[str]) -> Common | None:
    """The narrowest thing at which all these nodes hang and others do not; None where there is none."""
    struck = tuple(sorted(nodes))
    for level, shelves in known.items():
        if any(node not in shelves for node in struck):
            continue
        names = frozenset.intersection(*(shelves[node].names for node in struck))
        others = {node: shelf for node, shelf in shelves.items() if node not in struck}
        beside = tuple(sorted(node for node, shelf in others.items() if shelf.names & names))
        if names and len(beside) < len(others):
            sources = sorted({shelves[node].source for node in struck})
            return Common(
                level, tuple(sorted(names)), " and ".join(sources), struck, beside, len(others) - len(beside)
            )  # fmt: skip
    return None


def _said(finding: Finding, shared: Common) -> Finding:
    noun = NOUNS.get(finding.kind, "nodes")
    who = f"{'both' if len(shared.nodes) == LEAST else f'all {len(shared.nodes)}'} {noun}"
    what, where = shared.level, listed(shared.names)
    several = f"the same {count(len(shared.names), what, PLURALS.get(what, ''))}"
    thing = f"{several if len(shared.names) > 1 else f'one {what}'} ({where}"
    if shared.source == BY_NAME:
        sentence = f"by their names {who} are in {thing}): a hint, no proof"
    else:
        beside = f", where {count(len(shared.beside), 'other')} of the job hang{_s(shared.beside)} too"
        sentence = f"{who} hang at {thing}, {shared.source}){beside if shared.beside else ''}"
    proof = f"{where}: {listed(shared.nodes, 8)}; {count(shared.elsewhere, 'node')} of the job elsewhere"
    telling = shared.source != BY_NAME and shared.by_chance < CHANCE
    advice = f"Look at what they share first: {what} {where}." if telling else ""
    return replace(
        finding,
        summary=f"{finding.summary}; {sentence}",
        advice=" ".join(filter(None, (advice, finding.advice))),
        evidence=(*finding.evidence, Evidence(f"topology by {shared.source}", None, proof)),
    )


def _s(nodes: Sequence[str]) -> str:
    return "s" if len(nodes) == 1 else ""
