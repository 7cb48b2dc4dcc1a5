"""The odd one out: who differs from most, and when nobody can tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Vote(Generic[V]):
    """What most ranks have, and who has something else. ``tied``: no value has a majority over the next."""

    usual: V
    usual_ranks: tuple[int, ...]
    odd: Mapping[int, V]
    tied: bool

    @property
    def odd_ranks(self) -> tuple[int, ...]:
        """Ranks that differ; all ranks where the vote is tied."""
        return tuple(sorted({*self.odd, *self.usual_ranks})) if self.tied else tuple(sorted(self.odd))


def vote(values: Mapping[int, V]) -> Vote[V] | None:
    """Count the values of all ranks; None without two ranks. Everybody alike leaves ``odd`` empty."""
    groups: dict[V, list[int]] = defaultdict(list)
    for rank in sorted(values):
        groups[values[rank]].append(rank)
    if len(values) < 2:
        return None
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    usual, members = ordered[0]
    tied = len(ordered) > 1 and len(ordered[1][1]) == len(members)
    odd = {rank: value for value, ranks in ordered[1:] for rank in ranks}
    return Vote(usual, tuple(members), odd, tied)
