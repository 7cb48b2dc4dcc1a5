"""Bandwidths from times, in the definitions of nccl-tests (doc/PERFORMANCE.md of github.com/NVIDIA/nccl-tests).

``algbw`` is size over time. ``busbw`` multiplies it so that the figure is comparable with the speed of one link,
whatever the number of ranks.
"""

from __future__ import annotations


def bus_factor(op: str, world: int) -> float:
    """What busbw is of algbw, for ``world`` ranks."""
    if world < 2:
        return 1.0
    if op == "all_reduce":
        return 2 * (world - 1) / world
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return (world - 1) / world
    return 1.0


def bandwidths(op: str, size: int, seconds: float, world: int) -> tuple[float, float]:
    """(algbw, busbw) in GB/s, 1e9 bytes a second."""
    algorithm = size / seconds / 1e9 if seconds > 0 else 0.0
    return algorithm, algorithm * bus_factor(op, world)
