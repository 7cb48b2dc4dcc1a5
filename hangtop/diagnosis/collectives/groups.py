"""Which process group is which in the dumps of many ranks, and the global ranks behind the ranks of a group.

A dump names a group, and ``pg_config`` says its global ranks in the order of the group. Neither is always there: groups
without a communicator yet are missing, gloo names none, and groups made by splitting carry one name on all sides of the
split, so that only name and ranks together tell them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.collectives import RecorderDump

WHOLE_NAME = "default_pg"
"""What torch calls the group of all ranks."""
WHOLE = frozenset({"", "0", WHOLE_NAME})
"""Names of the group of all ranks: the ranks of that group are the global ones."""
HASH = 20
"""Letters of a name from which on it is a hash that says nothing to a reader (torch hashes the ranks)."""


def name_of(name: str, description: str) -> str:
    """A group's name with its description, as far as that says something of its own."""
    if description == WHOLE_NAME and name in WHOLE:
        return description
    return name if description in ("", name, "undefined") else f"{name} ({description})"


@dataclass(frozen=True, slots=True)
class Group:
    """One process group of the job. ``ranks`` are global, in the order of the group; empty where no dump tells."""

    name: str
    ranks: tuple[int, ...] = ()
    description: str = ""

    def __hash__(self) -> int:
        """By the name and a few of the ranks: a group is looked up for each entry of thousands of dumps."""
        return hash((self.name, len(self.ranks), self.ranks[:2], self.ranks[-1:], self.description))

    @property
    def label(self) -> str:
        """``3``, ``3 (tp)``; a hash, and the number of the group of all ranks, give way to the description."""
        name = self.name or "0"
        if len(name) > HASH:
            name = self.description or name[:8]
        return name_of(name, self.description)

    @property
    def whole(self) -> bool:
        """True for the group of all ranks."""
        return self.name in WHOLE or self.description == WHOLE_NAME

    @property
    def order(self) -> tuple[bool, int, str, tuple[int, ...]]:
        """To sort groups by: that of all ranks first."""
        return not self.whole, len(self.name), self.name, self.ranks

    def rank_at(self, place: int | None) -> int | None:
        """The global rank at a place of the group; None where it is not known."""
        if place is None:
            return None
        if self.ranks:
            return self.ranks[place] if 0 <= place < len(self.ranks) else None
        return place if self.whole else None


class Groups:
    """The groups of a set of dumps, one dump a rank."""

    def __init__(self, dumps: Iterable[RecorderDump]) -> None:
        self._dumped: dict[int, RecorderDump] = {dump.rank: dump for dump in dumps}
        self._tuples: dict[int, tuple[int, ...]] = {}
        """By the identity of a list of ranks: most dumps of a session share the very list."""
        self._equal: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._by_name: dict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
        """The ranks that dumps tell of a name; each once, by its identity."""
        self._described: dict[str, str] = {}
        self._known: dict[tuple[int, str], Group] = {}
        self._made: dict[tuple[str, int], Group] = {}
        """By name and the identity of the ranks: members of one group have the same object."""
        for dump in self._dumped.values():
            for name, listed in dump.groups.items():
                ranks = self._tuple(listed)
                self._by_name[name][id(ranks)] = ranks
            for entry in dump.collectives:
                if entry.group_description:
                    self._described.setdefault(entry.group, entry.group_description)

    def _tuple(self, ranks: Sequence[int]) -> tuple[int, ...]:
        known = self._tuples.get(id(ranks))
        if known is None:
            made = tuple(ranks)
            known = self._tuples[id(ranks)] = self._equal.setdefault(made, made)
        return known

    def of(self, rank: int, name: str) -> Group:
        """The group that a rank means by a name: by its own configuration, else by that of another member."""
        known = self._known.get((rank, name))
        if known is None:
            own: Mapping[str, Sequence[int]] = self._dumped[rank].groups if rank in self._dumped else {}
            ranks = self._tuple(own[name]) if own.get(name) else ()
            if not ranks:
                candidates = [each for each in self._by_name.get(name, {}).values() if rank in each]
                ranks = candidates[0] if len(candidates) == 1 else ()
            made = Group(name, ranks, self._described.get(name, ""))
            known = self._known[rank, name] = self._made.setdefault((name, id(ranks)), made)
        return known

    def members(self, group: Group, used_by: Iterable[int]) -> set[int]:
        """Global ranks of a group: those told; else all that were dumped for the whole job's, or those that used it."""
        if group.ranks:
            return set(group.ranks)
        return set(self._dumped) if group.whole else set(used_by)
