"""Faults of a Megatron job, each with the ranks that a right answer names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.support.megatron import SYNC, Layout, Op, Run, programs


@dataclass(frozen=True)
class Fault:
    """What goes wrong, where, and whom a right answer names. ``lost`` are ranks whose dumps are missing."""

    kind: Literal["stuck", "absent", "skip", "other", "size", "circle", "gpu", "lost"]
    rank: int
    place: int
    """Place in the rank's program, modulo its length."""

    def run(self, layout: Layout, *, ahead: int = 64) -> tuple[Run, frozenset[int], frozenset[int]]:
        """The job that stands still; ranks that a right answer names; ranks that leave no dump."""
        program = programs(layout)
        own = program[self.rank]
        run = Run(layout, program, ahead=ahead)
        lost: frozenset[int] = frozenset()
        right = frozenset({self.rank})
        collectives = [
            i for i, op in enumerate(own) if op.what == "collective" and (op.elements or self.kind != "size")
        ]
        place = collectives[self.place % len(collectives)]
        if self.kind in ("stuck", "absent", "lost"):
            run.stuck[self.rank] = self.place % len(own)
            if self.kind == "absent":
                lost = right
            elif self.kind == "lost":
                lost = frozenset({(self.rank + 1 + self.place) % layout.world}) - right
        elif self.kind == "skip":
            del own[place]
        elif self.kind == "other":
            own[place] = own[place]._replace(name="all_gather")
        elif self.kind == "size":
            own[place] = own[place]._replace(elements=own[place].elements + 7)
        elif self.kind == "gpu":
            run.hung_gpus.add(self.rank)
            right = frozenset()
        elif self.kind == "circle":
            right = self._make_circle(layout, program)
        run.go()
        return run, right, lost

    def _make_circle(self, layout: Layout, program: dict[int, list[Op]]) -> frozenset[int]:
        """Two stages that both receive before they send, outside a batch."""
        t, d, _ = layout.place(self.rank)
        low = self.place % max(1, layout.pipeline - 1)
        a, b = layout.rank(t, d, low), layout.rank(t, d, min(low + 1, layout.pipeline - 1))
        group = layout.groups()["pp"].get(a)
        if group is None:
            return frozenset()
        for rank, peer in ((a, b), (b, a)):
            ends = [i for i, op in enumerate(program[rank]) if op.name == "all_reduce" and op.elements == 1]
            place = (ends[self.place % len(ends)] if ends else len(program[rank]) - 1) + 1
            half = Op("pair", group, elements=64, batched=False)
            program[rank][place:place] = [
                half._replace(halves=(("recv", peer),)), SYNC, half._replace(halves=(("send", peer),)),
            ]  # fmt: skip
        return frozenset({a, b})
