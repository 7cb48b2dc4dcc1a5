"""Whose GPU is in another kernel than those that wait in one of NCCL's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hangtop.diagnosis.groups.vote import vote
from hangtop.diagnosis.phrasing import count, listed, ranks_text

_OPERATION = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
"""``ncclDevKernel_AllReduce_Sum_f32_RING_LL`` (2.19 and later), ``ncclKernel_AllReduce_RING_LL_Sum_float`` before."""
_OF_MANY = "Generic"
"""What NCCL calls a kernel that runs any of several operations."""


def odd_kernels(seen: Mapping[int, Sequence[str]]) -> str:
    """One line about the few that are in no kernel of NCCL's while more are in one; empty where nothing tells.

    Else about the few in another operation of NCCL's than most. ``seen``: the kernels of each rank's GPU, by rank.
    """
    waiting = {rank: tuple(_OPERATION.findall(" ".join(names))) for rank, names in seen.items()}
    outside = [rank for rank, operations in waiting.items() if not operations]
    inside = {rank: operations[0] for rank, operations in waiting.items() if operations}
    if outside:
        if len(outside) >= len(inside):
            return ""
        hold = "it holds" if len(outside) == 1 else "they hold"
        waiters = count(len(inside), "rank")
        return f"{waiters} wait in a kernel of NCCL's, {ranks_text(outside)} alone in none: {hold} the others up"
    counted = vote(inside)
    if counted is None or not counted.odd or 2 * len(counted.odd) >= len(inside) or _OF_MANY in inside.values():
        return ""
    told = listed([f"{ranks_text([rank])} in {operation}" for rank, operation in sorted(counted.odd.items())])
    return f"their operations differ: {told}, the others in {counted.usual}"
