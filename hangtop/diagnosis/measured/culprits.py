"""Whose fault bad pairs are: one of the two, or what lies between them. Of nodes, GPUs and ports alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from collectors.samples.probes import ProbePair

NEARLY_ALL = 2 / 3
"""Of a node's pairs: a node that loses one packet in twenty has a lucky pair now and then."""


def pairs_of(pairs: Iterable[ProbePair], name: str) -> list[ProbePair]:
    """Those in which it takes part."""
    return [pair for pair in pairs if name in (pair.a, pair.b)]


def culprits_of(pairs: Sequence[ProbePair], bad: Collection[tuple[str, str]]) -> tuple[list[str], list[ProbePair]]:
    """Names nearly all of whose pairs are bad while others are well, and the bad pairs that no such name explains.

    The one with most bad pairs is taken first, and what it explains is taken away: its partners have one bad pair each,
    and are not accused for it. Chance may spare a pair: two thirds are enough.
    """
    left = set(bad)
    names: list[str] = []
    while True:
        counts = Counter(name for key in left for name in key)
        others = [p for p in pairs if (p.a, p.b) not in bad]
        blamed = [
            name
            for name, count in counts.items()
            if count >= NEARLY_ALL * len([p for p in pairs_of(pairs, name) if not {p.a, p.b} & set(names)])
            and any(name not in (p.a, p.b) for p in others)
            and (count > 1 or len(pairs_of(pairs, name)) == 1)
        ]
        if not blamed:
            break
        worst = max(sorted(blamed), key=lambda name: counts[name])
        names.append(worst)
        left = {key for key in left if worst not in key}
    return sorted(names), [p for p in pairs if (p.a, p.b) in left]


def accused(
    pairs: Sequence[ProbePair], bad: Collection[tuple[str, str]]
) -> Iterator[tuple[tuple[str, ...], list[ProbePair]]]:
    """:func:`culprits_of`, as who is accused, one name or the two of a pair, and the pairs that speak against them."""
    names, links = culprits_of(pairs, bad)
    for name in names:
        yield (name,), pairs_of(pairs, name)
    for pair in links:
        yield (pair.a, pair.b), [pair]
