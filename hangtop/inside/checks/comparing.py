"""Compare the contents of ranks by name: first a fingerprint of each shard, then the rows of shards that differ.

Ranks with the same shard must have equal contents. A plain tensor has the empty shard, so all ranks of the group must
agree.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

from hangtop.inside.checks.meeting import Conclusion, More, Said, confer, group_of, ranks_text
from hangtop.inside.results import FINDINGS, CheckResult, Noted

NAMES = 20_000
"""Most rows that one rank sends."""
Rows = Dict[str, Tuple[str, str]]
"""Name → (shard, text) of each item."""


class Differing(NamedTuple):
    """An item that differs among ranks with the same shard."""

    name: str
    summary: str
    ranks: Sequence[int]
    """Ranks that differ from the majority; without a majority, also one rank with the usual text."""
    evidence: Sequence[str] = ()


def compare(
    check: str, things: str, rows: Callable[[], Rows], note: Callable[[Differing], Noted], group: Any, seconds: float,
    also: Callable[[], Sequence[Noted]] = tuple,
) -> CheckResult:  # fmt: skip
    """Compare ``rows`` over the ranks of a group.

    ``things``: name of the items; ``note``: makes the finding of a differing item; ``also``: other findings of the
    leader.
    """
    mine: Rows = {}

    def say(request: Said) -> Said:
        if "shards" in request:
            return {name: mine[name] for name in [name for name in mine if mine[name][0] in request["shards"]][:NAMES]}
        mine.update(rows())
        held: Dict[str, List[str]] = {}
        for name, (shard, text) in sorted(mine.items()):
            held.setdefault(shard, []).append("%s=%s" % (name, text))
        return {shard: [len(texts), fingerprint("\n".join(texts).encode())] for shard, texts in held.items()}

    def judge(round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        more = [] if round_ else _differing_shards(said)
        if more:
            return More({"shards": more})
        found = list(_differences(said)) if round_ else []
        wrong = [*also(), *map(note, found[:FINDINGS])]
        parts = [finding.summary for finding in wrong[: len(wrong) - len(found)]]
        if found:
            names = ", ".join(one.name for one in found[:3])
            parts.append("%d %s differ among ranks: %s%s" % (len(found), things, names, " …" if len(found) > 3 else ""))
        return Conclusion("; ".join(parts) or _equal(things, said), wrong)

    return confer(check, group_of(group), seconds, say, judge)


def _differing_shards(said: Dict[int, Said]) -> List[str]:
    every = sorted({shard for shards in said.values() for shard in shards})
    return [shard for shard in every if len({tuple(shards[shard]) for shards in said.values() if shard in shards}) > 1]


def _equal(things: str, said: Dict[int, Said]) -> str:
    held = Counter(shard for shards in said.values() for shard in shards)
    counts = {shard: count for shards in said.values() for shard, (count, _) in shards.items()}
    alone = sum(counts[shard] for shard, ranks in held.items() if ranks == 1 < len(said))
    compared = sum(counts.values()) - alone
    if not compared:
        return "nothing to compare: no two of %d ranks hold the same part of anything" % len(said)
    rest = "" if not alone else ", %d held by one rank alone" % alone
    return "%d %s are equal on %d ranks%s" % (compared, things, len(said), rest)


def _differences(said: Dict[int, Said]) -> Iterator[Differing]:
    by_name: Dict[Tuple[str, str], Dict[int, str]] = {}
    holders: Dict[str, List[int]] = {}
    for rank, rows in said.items():
        for name, (shard, text) in rows.items():
            by_name.setdefault((name, shard), {})[rank] = text
        for shard in {shard for shard, _ in rows.values()}:
            holders.setdefault(shard, []).append(rank)
    for (name, shard), texts in sorted(by_name.items()):
        item = name + (" (shard %s)" % shard if shard else "")
        usual = Counter(texts.values()).most_common(1)[0][0]
        odd = sorted(rank for rank, text in texts.items() if text != usual)
        if odd:
            yield _odd(name, item, min(set(texts) - set(odd)), odd, texts)
        lacking = sorted(set(holders[shard]) - set(texts))
        if lacking:
            summary = "%s is not on %s, but on %s" % (item, ranks_text(lacking), _others(len(texts)))
            yield Differing(name, summary, lacking)


def _odd(name: str, item: str, like: int, odd: List[int], texts: Dict[int, str]) -> Differing:
    """Ranks with another text than rank ``like`` of the majority; without a majority, ``like`` is named as well."""
    others = len(texts) - len(odd)
    even = others == len(odd)
    against = "that of rank %d" % like if even else _others(others)
    summary = "%s differs on %s from %s" % (item, ranks_text(odd), against)
    evidence = ["rank %d has %s" % (rank, texts[rank]) for rank in (like, *odd[:4])]
    return Differing(name, summary, sorted([like, *odd]) if even else odd, evidence)


def _others(number: int) -> str:
    return "%d other%s" % (number, "" if number == 1 else "s")


def fingerprint(data: bytes) -> str:
    """A hash as sixteen hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
