"""Whose GPU is in another kernel than the others', by what CUDA's core dumps name."""

from __future__ import annotations

import pytest

from hangtop.session.asking.odd_kernels import odd_kernels

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
GATHER = "ncclDevKernel_AllGather_RING_LL"
SPIN = "at::cuda::(anonymous namespace)::spin_kernel"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({0: [REDUCE], 1: [SPIN], 2: [REDUCE]}, "2 ranks wait in a kernel of NCCL's, rank 1 alone in none: it holds"),
        ({0: [REDUCE], 1: [], 2: [REDUCE]}, "rank 1 alone in none"),
        ({0: [REDUCE, SPIN], 1: [SPIN], 2: [SPIN, REDUCE]}, "rank 1 alone in none"),
        (
            {0: [GATHER], 1: [REDUCE], 2: [REDUCE]},
            "their operations differ: rank 0 in AllGather, the others in AllReduce",
        ),
        (
            {0: ["ncclKernel_AllReduce_RING_LL_Sum_float"], 1: [SPIN], 2: ["ncclKernel_AllReduce_RING_LL_Sum_float"]},
            "rank 1",
        ),
    ],
)
def test_who_is_odd(seen: dict[int, list[str]], told: str) -> None:
    assert told in odd_kernels(seen)


@pytest.mark.parametrize(
    "seen",
    [
        {},
        {0: [REDUCE]},
        {0: [REDUCE], 1: [REDUCE]},
        {0: [REDUCE], 1: [SPIN]},
        {0: [SPIN], 1: [SPIN], 2: [REDUCE]},
        {0: [REDUCE], 1: [GATHER]},
        {0: ["ncclDevKernel_Generic_4"], 1: [REDUCE], 2: [REDUCE]},
    ],
)
def test_nothing_tells(seen: dict[int, list[str]]) -> None:
    """Of as many on either side each may be at work."""
    assert odd_kernels(seen) == ""
