"""Wording of findings: folded ranks and node names, rounded durations, plurals."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from hangtop.diagnosis.unnumbered import Unnumbered, numbered, parse_process, unnumbered

RANGES = 8
"""Most ranges that a folded name shows."""
_HOST = re.compile(r"([^.]*?)([0-9]{1,9})(\.[^0-9].*)?|(.*?)([0-9]{1,9})()")
"""A name that ends in a number, with its domain; or an address, which is folded by its last number."""


def folded(numbers: Iterable[int]) -> str:
    """Fold numbers into ranges: ``0-36,38-63``; empty for none. A process without a number: ``node2:4711``."""
    ranks = set(numbers)
    return ",".join([*ranges(sorted(numbered(ranks))), *map(str, unnumbered(ranks))])


def ranges(ordered: Sequence[int], width: int = 0) -> Iterator[str]:
    """Yield consecutive numbers of a sorted sequence as one text: ``0-36``, ``38``; zero-padded to ``width``."""
    start = 0
    for index, number in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != number + 1:
            first = ordered[start]
            yield f"{first:0{width}}" if first == number else f"{first:0{width}}-{number:0{width}}"
            start = index + 1


def parse_ranks(text: str) -> frozenset[int]:
    """Unfold ``3,7-9``, and ``node2:4711`` for a process without a number.

    Raises :class:`ValueError` for anything else.
    """
    ranks: set[int] = set()
    for part in text.split(","):
        if (process := parse_process(part)) is not None:
            ranks.add(process)
            continue
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"no ranks: {text!r} (write them as 3,7-9, a process without a number as NODE:PID)")
        low, high = int(first), int(last or first)
        if high < low or high - low > 1_000_000:
            raise ValueError(f"no range: {part.strip()!r}")
        ranks.update(range(low, high + 1))
    return frozenset(ranks)


def rank_text(rank: int) -> str:
    """``rank 37``, or ``process 4711 on node2`` if the rank is unknown."""
    return rank.text if isinstance(rank, Unnumbered) else f"rank {rank}"


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 37``, ``ranks 0-2,5``, ``processes 4711 and 4712 on node2``, ``rank 3 and process 88 on node1``.

    Empty for none.
    """
    all_ranks = set(ranks)
    ordered, others = sorted(numbered(all_ranks)), unnumbered(all_ranks)
    numbers = f"rank {ordered[0]}" if len(ordered) == 1 else f"ranks {','.join(ranges(ordered))}"
    parts = [numbers] if ordered else []
    for node, group in groupby(others, key=lambda process: process.node):
        pids = [str(process.pid) for process in group]
        parts.append(f"{'process' if len(pids) == 1 else 'processes'} {listed(pids)} on {node}")
    return listed(parts)


def ranks_on(ranks: Iterable[int], nodes: Iterable[str]) -> str:
    """``rank 37 on node4``; the text of a process without a number already names its node."""
    all_ranks = set(ranks)
    text = ranks_text(all_ranks)
    return text if unnumbered(all_ranks) else f"{text} {on_nodes(nodes)}".rstrip()


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 rank``, ``63 ranks``, ``16,384 ranks``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_PLURALS = {"is": "are", "has": "have", "was": "were", "does": "do"}
_TAKES_ES = ("ches", "shes", "sses", "xes")


def of_several(doing: str, number: int) -> str:
    """A clause about one, put into the plural: ``waits for its GPU``, ``wait for their GPU``; ``in step`` stays."""
    verb = re.match("[a-z]+", doing)
    if number == 1 or verb is None:
        return doing
    word = verb.group()
    several = word if not word.endswith("s") else word[:-2] if word.endswith(_TAKES_ES) else word[:-1]
    return _PLURALS.get(word, several) + re.sub(r"\bits\b", "their", doing[verb.end() :])


def waiters_text(waiters: Collection[object], noun: str) -> str:
    """``1 other waits``, ``3 others wait``."""
    return f"{count(len(waiters), noun)} {of_several('waits', len(waiters))}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """``a``, ``a and b``, ``a, b, c, d and 3 more``."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def on_nodes(nodes: Iterable[str]) -> str:
    """``on node4``, ``on node1 and node2``; empty when no node is known."""
    named = sorted({node for node in nodes if node})
    return f"on {listed(named)}" if named else ""


def folded_names(names: Iterable[str]) -> str:
    """Fold names that differ in one number only: ``gpu[001-004] and login``, ``gpu[1-4].lab.example``.

    Shows at most :data:`RANGES` ranges of a name, and three names.
    """
    plain: list[str] = []
    parted: list[tuple[str, str, str]] = []
    for name in names:
        if match := _HOST.fullmatch(name):
            stem, number, end = match.group(1, 2, 3) if match.group(2) else match.group(4, 5, 6)
            parted.append((stem, number, end or ""))
        else:
            plain.append(name)
    # after 08 and 09, 10 belongs to the padded names although it has no leading zero
    padded = {(stem, len(number), end) for stem, number, end in parted if number.startswith("0") and len(number) > 1}
    groups: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for stem, number, end in parted:
        groups[stem, len(number) if (stem, len(number), end) in padded else 0, end].add(int(number))
    texts = []
    for (stem, width, end), numbers in groups.items():
        parts = list(ranges(sorted(numbers), width))
        text = ",".join([*parts[:RANGES], "…"] if len(parts) > RANGES else parts)
        texts.append(f"{stem}{text if len(numbers) == 1 else f'[{text}]'}{end}")
    return listed([*texts, *plain], 3)


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``4 min``, ``2.5 h``."""
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 180:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def size(number: float) -> str:
    """``512 B``, ``1.5 GiB``."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while abs(number) >= 1024 and power < len(units) - 1:
        number /= 1024
        power += 1
    return f"{number:.1f} {units[power]}" if power and number < 100 else f"{number:.0f} {units[power]}"


def outcome_words(outcome: str) -> str:
    """An outcome for people: ``at risk`` for ``at_risk``."""
    return outcome.replace("_", " ")
