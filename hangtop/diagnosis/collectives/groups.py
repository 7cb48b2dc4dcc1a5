"""Identity of process groups over the dumps of many ranks, and the global ranks behind the ranks of a group.

A dump names a group, and ``pg_config`` lists its global ranks in the order of the group. Either may be missing: groups
without a communicator are not listed, gloo lists none, and groups made by splitting have one name on all sides of the
split, so that only name and ranks together identify a group.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_NAME = "default_pg"
"""What torch calls the group of all ranks."""
WHOLE = frozenset({"", "0", WHOLE_NAME})
"""Names of the group of all ranks: the ranks of that group are the global ones."""
HASH = 20
"""Longest name, in characters, that is shown: a longer one is a hash of the ranks by torch."""


@dataclass(frozen=True, slots=True)
class Group:
    """One process group of the job. ``ranks`` are global, in the order of the group; empty if no dump lists them."""

    name: str
    ranks: tuple[int, ...] = ()
    description: str = ""

    @property
    def label(self) -> str:
        """Its name for readers, ``3`` or ``3 (tp)``; the description replaces a hash and the default group's number."""
        name, description = self.name, self.description
        if len(name) > HASH:
            name = description or name[:8]
        if description == WHOLE_NAME and name in WHOLE:
            return description
        return (name or "0") if description in ("", name, "undefined") else f"{name or '0'} ({description})"

    @property
    def whole(self) -> bool:
        """True for the group of all ranks."""
        return self.name in WHOLE or self.description == WHOLE_NAME

    def rank_at(self, place: int | None) -> int | None:
        """The global rank at a place of the group; None if unknown."""
        if place is None or place < 0 or (not self.ranks and not self.whole):
            return None
        if not self.ranks:
            return place
        return self.ranks[place] if place < len(self.ranks) else None
