"""Ranks that launched different operations, types or sizes at one number: which of them are the odd ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from hangtop.diagnosis.collectives.progress import Operation

SAME_INPUT = frozenset(
    {
        "allreduce", "broadcast", "reduce", "reducescatter", "reducescatterbase", "reducescattertensor",
        "allgather", "allgatherbase", "allgatherintotensor",
    }
)  # fmt: skip
"""Operations whose input must have the same number of elements on every rank. The all_to_all family may differ."""
V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Vote(Generic[V]):
    """What most ranks have, and which ranks have something else. ``tied``: no value has a majority over the next."""

    usual: V
    usual_ranks: tuple[int, ...]
    odd: Mapping[int, V]
    tied: bool

    @property
    def odd_ranks(self) -> tuple[int, ...]:
        """Ranks that differ; all ranks where the vote is tied."""
        return tuple(sorted({*self.odd, *self.usual_ranks})) if self.tied else tuple(sorted(self.odd))


def vote(values: Mapping[int, V]) -> Vote[V] | None:
    """Count the values of all ranks; None without two ranks that differ."""
    groups: dict[V, list[int]] = defaultdict(list)
    for rank in sorted(values):
        groups[values[rank]].append(rank)
    if len(groups) < 2:
        return None
    (usual, members), *others = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    odd = {rank: value for value, ranks in others for rank in ranks}
    return Vote(usual, tuple(members), odd, tied=len(others[0][1]) == len(members))


class Mismatch(NamedTuple):
    """How ranks differ in one collective."""

    what: Literal["name", "dtype", "size"]
    counted: Vote[str]


def mismatch(launched: Mapping[int, Operation]) -> Mismatch | None:
    """How ranks differ that launched these at one number of a communicator; what is not told compares with nothing."""
    names = {one.name for one in launched.values()}
    same_size = {name.lower().replace("_", "") for name in names} <= SAME_INPUT
    for what in ("name", "dtype", "size") if same_size else ("name", "dtype"):
        told = {rank: value for rank, one in launched.items() if (value := getattr(one, what))}
        counted = vote(told)
        if counted is not None:
            return Mismatch(what, counted)
    return None
