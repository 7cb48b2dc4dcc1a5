"""``check_same``: whether replicas are still equal, bit by bit: first by shard, then the items that differ."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Tuple, Union

from hangtop.inside.checks.digests import digests
from hangtop.inside.checks.items import StateItem, fingerprint, items_of
from hangtop.inside.checks.meeting import Conclusion, More, Said, confer, group_of, harmless, ranks_text
from hangtop.inside.results import FINDINGS, CheckResult, Noted

NAMES = 20_000
"""Items of which one rank tells the fingerprints."""
ADVICE = (
    "Replicas that differ train different models and hide it: look for code that runs on some ranks only, data or "
    "seeds per rank before the model is built, a buffer that is not broadcast, and for hardware if it comes again at "
    "one rank."
)


@harmless("same")
def check_same(*things: Any, group: Any = None, seconds: float = 60.0) -> CheckResult:
    """Compare replicas bit by bit, over the ranks of ``group`` (all of the job without one).

    ``things``: modules (parameters and buffers; followed by ``"buffers"`` these alone), optimizers, tensors, mappings
    and sequences of them, ``"rng"``. A DTensor is compared among ranks that hold the same shard. All ranks of the group
    must call it at the same point; a rank that does not come within ``seconds`` is named.
    """
    return confer("same", group_of(group), seconds, Comparing(things).say, SameJudging())


class Comparing:
    """This rank's side: fingerprints of whole shards, then of items."""

    def __init__(self, things: Tuple[Any, ...]) -> None:
        self._things = things
        self._items: Dict[str, StateItem] = {}
        self._digests: Dict[str, str] = {}

    def say(self, request: Said) -> Said:
        """Answer the leader."""
        if "shards" in request:
            named = [name for name, item in self._items.items() if item.shard in request["shards"]][:NAMES]
            return {name: [self._items[name].shard, self._digests[name]] for name in named}
        return self._shards()

    def _shards(self) -> Said:
        """By shard: how many items, and one fingerprint for all of them."""
        items = items_of(self._things)
        self._items = {item.name: item for item in items}
        tensors = [item for item in items if item.tensor is not None]
        self._digests = {item.name: item.text for item in items if item.tensor is None}
        for item, found in zip(tensors, digests([item.tensor for item in tensors])):
            self._digests[item.name] = "%016x %s %s" % (found, item.tensor.dtype, list(item.tensor.shape))
        shards: Dict[str, List[str]] = {}
        for name, item in sorted(self._items.items()):
            shards.setdefault(item.shard, []).append("%s=%s" % (name, self._digests[name]))
        return {shard: [len(held), fingerprint("\n".join(held).encode())] for shard, held in shards.items()}


class SameJudging:
    """The leader's side."""

    def __init__(self) -> None:
        self._compared = 0
        self._alone = 0

    def __call__(self, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """First shards, then items."""
        if round_ == 0:
            return self._shards(said)
        return self._conclusion(_differences(said))

    def _shards(self, said: Dict[int, Said]) -> Union[More, Conclusion]:
        differ: List[str] = []
        for shard in sorted({shard for shards in said.values() for shard in shards}):
            told = [shards[shard] for shards in said.values() if shard in shards]
            if len(told) == 1 and len(said) > 1:
                self._alone += told[0][0]
            else:
                self._compared += max(count for count, _ in told)
            if any(one != told[0] for one in told):
                differ.append(shard)
        if differ:
            return More({"shards": differ})
        if not self._compared:
            return Conclusion("nothing to compare: no two of %d ranks hold the same part of anything" % len(said))
        alone = "" if not self._alone else ", %d held by one rank alone" % self._alone
        return Conclusion(
            "%d tensors and states are equal on %d ranks, bit by bit%s" % (self._compared, len(said), alone)
        )

    def _conclusion(self, every: List[Tuple[str, Noted]]) -> Conclusion:
        summary = "%d of %d tensors and states differ among replicas: %s%s" % (
            len(every), max(self._compared, len(every)), ", ".join(name for name, _ in every[:3]),
            " …" if len(every) > 3 else "",
        )  # fmt: skip
        return Conclusion(summary, [finding for _, finding in every[:FINDINGS]])


def _differences(said: Dict[int, Said]) -> List[Tuple[str, Noted]]:
    """Items that are not the same on all ranks that hold the same shard of them: their names, and what to say."""
    by_name: Dict[Tuple[str, str], Dict[int, str]] = {}
    holders: Dict[str, List[int]] = {}
    for rank, rows in said.items():
        for name, (shard, found) in rows.items():
            by_name.setdefault((name, shard), {})[rank] = found
        for shard in {shard for shard, _ in rows.values()}:
            holders.setdefault(shard, []).append(rank)
    differ = []
    for (name, shard), told in sorted(by_name.items()):
        item = name + (" (shard %s)" % shard if shard else "")
        usual = Counter(told.values()).most_common(1)[0][0]
        odd = sorted(rank for rank, found in told.items() if found != usual)
        if odd:
            differ.append((name, _odd(item, min(set(told) - set(odd)), odd, told)))
        lacking = sorted(set(holders[shard]) - set(told))
        if lacking:
            summary = "%s is not on %s, but on %s" % (item, ranks_text(lacking), _others(len(told)))
            differ.append((name, Noted("replicas_differ", "critical", summary, lacking, [], ADVICE)))
    return differ


def _odd(item: str, like: int, odd: List[int], told: Dict[int, str]) -> Noted:
    """Ranks with another fingerprint than ``like``, one of the majority; where there is none, both sides are named."""
    others = len(told) - len(odd)
    even = others == len(odd)
    against = "that of rank %d" % like if even else _others(others)
    summary = "%s differs on %s from %s" % (item, ranks_text(odd), against)
    evidence = ["rank %d has %s" % (rank, told[rank]) for rank in (like, *odd[:4])]
    return Noted("replicas_differ", "critical", summary, sorted([like, *odd]) if even else odd, evidence, ADVICE)


def _others(number: int) -> str:
    return "%d other%s" % (number, "" if number == 1 else "s")
