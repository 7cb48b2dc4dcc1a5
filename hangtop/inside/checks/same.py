"""``check_same``: whether replicas are still equal: fingerprints first, then down to the elements that differ."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, NamedTuple, Tuple, Union

from hangtop.inside.checks import digests
from hangtop.inside.checks.elements import compared, packed
from hangtop.inside.checks.items import Item, items_of
from hangtop.inside.checks.meeting import confer, group_of, harmless
from hangtop.inside.checks.whereabouts import ranks_text
from hangtop.inside.checks.words import Conclusion, More, Said
from hangtop.inside.results import FINDINGS, CheckResult, Noted

FEW = 16384
"""Elements of which the values themselves are exchanged."""
NAMES = 20_000
"""Items of which one cell tells the fingerprints."""
NAMED = 4
"""Ranks with other bits whose elements are compared with those of the others."""
ADVICE = (
    "Replicas that differ train different models and hide it: look for code that runs on some ranks only, data or "
    "seeds per rank before the model is built, a buffer that is not broadcast, and for hardware if it comes again at "
    "one rank."
)


@harmless("same")
def check_same(*things: Any, group: Any = None, seconds: float = 60.0, number: int = 0) -> CheckResult:
    """Compare replicas bit by bit, over the ranks of ``group`` (all of the job without one).

    ``things``: modules (parameters and buffers; followed by ``"buffers"`` these alone), optimizers, tensors, mappings
    and sequences of them, ``"rng"``. A DTensor is compared among ranks that hold the same shard. All ranks of the group
    must call it at the same point; who does not come within ``seconds`` is named.
    """
    members = group_of(group)
    mine = Comparing(things)
    return confer("same", members, seconds, mine.cells, SameJudging(), mine.reply, number)


class Comparing:
    """This rank's side: fingerprints, from coarse to fine."""

    def __init__(self, things: Tuple[Any, ...]) -> None:
        self._things = things
        self._items: Dict[str, Item] = {}
        self._digests: Dict[str, str] = {}

    def _read(self) -> None:
        """Make the fingerprints of everything."""
        items = items_of(self._things)
        self._items = {item.name: item for item in items}
        tensors = [item for item in items if item.tensor is not None]
        self._digests = {item.name: item.text for item in items if item.tensor is None}
        for item, found in zip(tensors, digests.digests([item.tensor for item in tensors])):
            self._digests[item.name] = "%016x %s %s" % (found, item.tensor.dtype, list(item.tensor.shape))

    def cells(self) -> Said:
        """By cell: how many items, and one fingerprint for all of them."""
        self._read()
        cells: Dict[str, List[Any]] = {}
        for name, item in sorted(self._items.items()):
            known = cells.setdefault(item.cell, [0, 0])
            known[0] += 1
            for letter in (name + "=" + self._digests[name]).encode():
                known[1] = (known[1] * 1_000_003 + letter + 1) & digests.MASK
        return cells

    def reply(self, request: Said) -> Said:
        """Fingerprints of the items of some cells; or, of single items, of their parts, or their elements."""
        if "cells" in request:
            wanted = set(request["cells"])
            named = [name for name, item in self._items.items() if item.cell in wanted][:NAMES]
            return {name: [self._items[name].cell, self._digests[name]] for name in named}
        said: Said = {}
        for name, (begin, end) in request["ranges"].items():
            item = self._items.get(name)
            if item is None:
                continue
            if item.tensor is None:
                said[name] = {"text": item.text if item.shown else ""}
                continue
            flat = digests.flat_of(item.tensor)
            last = flat.numel() if end < 0 else min(end, flat.numel())
            size = {"begin": begin, "end": last, "shape": list(item.tensor.shape), "dtype": str(item.tensor.dtype)}
            if last - begin <= FEW:
                said[name] = {**size, "values": packed(flat[begin:last])}
            else:
                said[name] = {**size, "blocks": digests.block_digests(flat, begin, last)}
        return said


class Apart(NamedTuple):
    """One item that is not the same on all ranks that hold the same part of it."""

    name: str
    cell: str
    like: int
    """A rank of the majority."""
    ranks: List[int]
    """Those that differ from it."""
    others: int
    """How many do not."""
    absent: bool = False
    """They do not have it at all."""


class SameJudging:
    """The leader's side."""

    def __init__(self) -> None:
        self._apart: List[Apart] = []
        self._compared = 0
        self._alone = 0
        self._ranges: Dict[str, Tuple[int, int]] = {}
        self._parts: Dict[str, str] = {}
        """By item: in how many of its parts it differs."""

    def __call__(self, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """First cells, then items, then parts of them, at last elements."""
        if round_ == 0:
            return self._cells(said)
        if round_ == 1:
            return self._names(said)
        return self._elements(said)

    def _cells(self, said: Dict[int, Said]) -> Union[More, Conclusion]:
        differ: List[str] = []
        for cell in sorted({cell for cells in said.values() for cell in cells}):
            told = [cells[cell] for cells in said.values() if cell in cells]
            if len(told) == 1 and len(said) > 1:
                self._alone += told[0][0]
            else:
                self._compared += max(count for count, _ in told)
            if any(one != told[0] for one in told):
                differ.append(cell)
        if differ:
            return More({"cells": differ})
        return Conclusion(self._counted(len(said)))

    def _counted(self, ranks: int) -> str:
        if not self._compared:
            return "nothing to compare: no two of %d ranks hold the same part of anything" % ranks
        alone = "" if not self._alone else ", %d held by one rank alone" % self._alone
        return "%d tensors and states are equal on %d ranks, bit by bit%s" % (self._compared, ranks, alone)

    def _names(self, said: Dict[int, Said]) -> Union[More, Conclusion]:
        by_name: Dict[Tuple[str, str], Dict[int, str]] = {}
        cells: Dict[str, List[int]] = {}
        for rank, rows in said.items():
            for name, (cell, found) in rows.items():
                by_name.setdefault((name, cell), {})[rank] = found
            for cell in {cell for cell, _ in rows.values()}:
                cells.setdefault(cell, []).append(rank)
        for (name, cell), told in sorted(by_name.items()):
            usual = Counter(told.values()).most_common(1)[0][0]
            like = min(rank for rank, found in told.items() if found == usual)
            odd = sorted(rank for rank, found in told.items() if found != usual)
            if odd:
                self._apart.append(Apart(name, cell, like, odd, len(told) - len(odd)))
            lacking = sorted(set(cells[cell]) - set(told))
            if lacking:
                self._apart.append(Apart(name, cell, like, lacking, len(told), absent=True))
        self._ranges = {apart.name: (0, -1) for apart in self._apart[:FINDINGS] if not apart.absent}
        if not self._ranges:
            return self._conclusion({})
        return More({"ranges": self._ranges})

    def _elements(self, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """Go on into the first part that differs of each item, until its elements are at hand."""
        deeper: Dict[str, Tuple[int, int]] = {}
        for apart in self._apart[:FINDINGS]:
            mine, other = (said.get(rank, {}).get(apart.name) for rank in (apart.like, apart.ranks[0]))
            if mine is None or other is None or "blocks" not in mine or "blocks" not in other:
                continue
            if any(mine[part] != other[part] for part in ("shape", "dtype")):
                continue
            differing = [place for place, pair in enumerate(zip(mine["blocks"], other["blocks"])) if pair[0] != pair[1]]
            self._parts.setdefault(apart.name, "%d of %d parts" % (len(differing), len(mine["blocks"])))
            if differing:
                size = digests.block_size(mine["begin"], mine["end"])
                begin = mine["begin"] + differing[0] * size
                deeper[apart.name] = begin, min(begin + size, mine["end"])
        if deeper:
            self._ranges.update(deeper)
            return More({"ranges": self._ranges})
        return self._conclusion(said)

    def _conclusion(self, said: Dict[int, Said]) -> Conclusion:
        findings = [self._finding(apart, said) for apart in self._apart[:FINDINGS]]
        more = len(self._apart) - len(findings)
        names = ", ".join(apart.name for apart in self._apart[:3])
        summary = "%d of %d tensors and states differ among replicas: %s%s" % (
            len(self._apart), max(self._compared, len(self._apart)), names, " …" if len(self._apart) > 3 else "",
        )  # fmt: skip
        if more > 0:
            findings[-1] = findings[-1]._replace(evidence=[*findings[-1].evidence, "and %d more items differ" % more])
        return Conclusion(summary, findings)

    def _finding(self, apart: Apart, said: Dict[int, Said]) -> Noted:
        where = " (shard %s)" % apart.cell if apart.cell else ""
        if apart.absent:
            return Noted(
                "replicas_differ", "critical",
                "%s%s is not on %s, but on %s"
                % (apart.name, where, ranks_text(apart.ranks), counted(apart.others, "other")), apart.ranks, [], ADVICE,
            )  # fmt: skip
        even = apart.others == len(apart.ranks)
        against = "that of rank %d" % apart.like if even else counted(apart.others, "other")
        evidence = []
        if apart.name in self._parts:
            evidence.append("it differs in %s; the first of them:" % self._parts[apart.name])
        for rank in apart.ranks[:NAMED]:
            mine, other = (said.get(one, {}).get(apart.name) for one in (apart.like, rank))
            if mine is not None and other is not None:
                evidence += compared(mine, other, apart.like, rank)
        summary = "%s%s differs on %s from %s" % (apart.name, where, ranks_text(apart.ranks), against)
        ranks = sorted([apart.like, *apart.ranks]) if even else apart.ranks
        return Noted("replicas_differ", "critical", summary, ranks, evidence, ADVICE)


def counted(number: int, noun: str) -> str:
    """``1 other``, ``3 others``."""
    return "%d %s%s" % (number, noun, "" if number == 1 else "s")
