"""Which process group is which in the dumps of many ranks, and the global ranks behind the ranks of a group.

A dump names a group, and ``pg_config`` says its global ranks in the order of the group. Neither is always there: groups
without a communicator yet are missing, gloo names none, and groups made by splitting carry one name on all sides of the
split, so that only name and ranks together tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_NAME = "default_pg"
"""What torch calls the group of all ranks."""
WHOLE = frozenset({"", "0", WHOLE_NAME})
"""Names of the group of all ranks: the ranks of that group are the global ones."""
HASH = 20
"""Letters of a name from which on it is a hash that says nothing to a reader (torch hashes the ranks)."""


def name_of(name: str, description: str) -> str:
    """``3``, ``3 (tp)``; a hash, and the number of the group of all ranks, give way to the description."""
    if len(name) > HASH:
        name = description or name[:8]
    if description == WHOLE_NAME and name in WHOLE:
        return description
    return (name or "0") if description in ("", name, "undefined") else f"{name or '0'} ({description})"


@dataclass(frozen=True, slots=True)
class Group:
    """One process group of the job. ``ranks`` are global, in the order of the group; empty where no dump tells."""

    name: str
    ranks: tuple[int, ...] = ()
    description: str = ""

    @property
    def label(self) -> str:
        """Its name as a reader knows it."""
        return name_of(self.name, self.description)

    @property
    def whole(self) -> bool:
        """True for the group of all ranks."""
        return self.name in WHOLE or self.description == WHOLE_NAME

    def rank_at(self, place: int | None) -> int | None:
        """The global rank at a place of the group; None where it is not known."""
        if place is None or place < 0 or (not self.ranks and not self.whole):
            return None
        if not self.ranks:
            return place
        return self.ranks[place] if place < len(self.ranks) else None
