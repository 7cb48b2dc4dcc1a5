"""Which process group is which in the dumps of many ranks, and the global ranks behind the ranks of a group.

A dump names a group, and ``pg_config`` says its global ranks in the order of the group. Neither is always there: groups
without a communicator yet are missing, gloo names none, and groups made by splitting carry one name on all sides of the
split, so that only name and ranks together tell them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
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
        """By the name and a few of the ranks: a group may have thousands."""
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
        self._dumped = {dump.rank: dump for dump in dumps}
        self._by_name: dict[str, set[tuple[int, ...]]] = defaultdict(set)
        """The ranks that dumps tell of a name."""
        self._described: dict[str, str] = {}
        self._known: dict[tuple[int, str], Group] = {}
        for dump in self._dumped.values():
            for name, ranks in dump.groups.items():
                self._by_name[name].add(tuple(ranks))
            for entry in dump.collectives:
                if entry.group_description:
                    self._described.setdefault(entry.group, entry.group_description)

    def of(self, rank: int, name: str) -> Group:
        """The group that a rank means by a name: by its own configuration, else by that of another member."""
        known = self._known.get((rank, name))
        if known is None:
            ranks = tuple(self._dumped[rank].groups.get(name, ())) if rank in self._dumped else ()
            if not ranks:
                candidates = [each for each in self._by_name.get(name, ()) if rank in each]
                ranks = candidates[0] if len(candidates) == 1 else ()
            known = self._known[rank, name] = Group(name, ranks, self._described.get(name, ""))
        return known

    def members(self, group: Group, used_by: Iterable[int]) -> set[int]:
        """Global ranks of a group: those told; else all that were dumped for the whole job's, or those that used it."""
        if group.ranks:
            return set(group.ranks)
        return set(self._dumped) if group.whole else set(used_by)
