"""check_same of everything that a tensor can be: each kind with one rank that differs, and all alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hangtop.inside import check_same
from hangtop.inside.checks.digests import digest
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
pytestmark = pytest.mark.torch


def linear(odd: float, device: str = "cpu") -> Any:
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4, device=device)
    if device == "cpu":
        layer.weight.data[1, 2] += odd
    return layer


def payload(odd: float) -> Any:
    """A NaN, whose lowest bits nobody sees."""
    return torch.tensor([0x7FC00000 + int(odd), 1], dtype=torch.int32).view(torch.float32)


def tied(odd: float) -> Any:
    model = torch.nn.Sequential(linear(0), linear(0))
    if not odd:
        model[1].weight = model[0].weight
    return model


def stepped(odd: float) -> Any:
    """An optimizer whose state is a list of tensors."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([weight])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (weight * (weight - 3)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.state[weight]["old_dirs"][0][0] += odd
    return optimizer


def rated(odd: float) -> Any:
    return torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))], lr=torch.tensor(0.1 + odd))


KINDS: dict[str, tuple[Callable[[float], tuple[Any, ...]], str]] = {
    "first of two models": (lambda odd: (linear(odd), linear(0)), "1 of 16 elements, the first at [1, 2]"),
    "second of two models": (lambda odd: (linear(0), linear(odd)), "1 of 16 elements, the first at [1, 2]"),
    "first of two tensors": (lambda odd: (torch.full((3,), odd), torch.ones(3)), "3 of 3 elements"),
    "one name in two mappings": (
        lambda odd: ({"a": {"w": torch.full((2,), odd)}, "b": {"w": torch.ones(2)}},), "2 of 2 elements"),
    "state dict": (lambda odd: (rated(odd).state_dict(),), "at most 1 apart"),
    "counter": (lambda odd: ({"step": 3 + int(odd), "w": torch.ones(2)},), "rank 0 has 3, rank 1 has 4"),
    "array": (lambda odd: (np.full(3, odd),), "3 of 3 elements"),
    "list in a state": (lambda odd: (stepped(odd),), "at most 1 apart"),
    "rate that is a tensor": (lambda odd: (rated(odd),), "1 of 1 elements, the first at []"),
    "signs": (lambda odd: (torch.arange(1.0, 9.0, dtype=torch.float64) * (1 - 2 * odd),), "8 of 8 elements"),
    "sign of zero": (lambda odd: (torch.zeros(3) * (1 - 2 * odd),), "0 and -0; equal numbers in other bits"),
    "payload of a NaN": (lambda odd: (payload(odd),), "NaN: 1 and 1; equal numbers in other bits"),
    "last digit": (
        lambda odd: (torch.tensor([0.1 + odd * 2e-17], dtype=torch.float64),), "0.10000000000000001 and "),
    "type": (lambda odd: (torch.zeros(8, dtype=torch.int32 if odd else torch.float32),), "types: torch.float32"),
    "shape": (lambda odd: (torch.zeros((2, 3) if odd else (3, 2)),), "shapes: [3, 2] on rank 0, [2, 3] on rank 1"),
    "shape of much": (lambda odd: (torch.zeros((200, 300) if odd else (300, 200)),), "shapes: [300, 200] on rank 0"),
    "meta on one": (lambda odd: (linear(0, "meta" if odd else "cpu"),), "rank 1 has a tensor on meta"),
    "lazy on one": (lambda odd: (torch.nn.LazyLinear(4) if odd else linear(0),), "that is not initialised yet"),
    "sparse": (lambda odd: (torch.eye(4).mul(1 + odd).to_sparse(),), "4 of 4 elements, the first at [0]: 1 and 2"),
    "sparse rows": (lambda odd: (torch.eye(4).mul(1 + odd).to_sparse_csr(),), "4 of 4 elements"),
    "conjugate": (lambda odd: (torch.full((3,), complex(1, odd)).conj(),), "(1-0j) and (1-1j); at most 1 apart"),
    "imaginary part": (lambda odd: (torch.full((3,), complex(1, odd)).conj().imag,), "3 of 3 elements"),
    "eight bits": (lambda odd: (torch.full((9,), 1 + odd).to(torch.float8_e4m3fn),), "1 and 2; at most 1 apart"),
    "four bits": (
        lambda odd: (torch.full((9,), 1 + int(odd), dtype=torch.uint8).view(torch.float4_e2m1fn_x2),), "1 and 2"),
    "quantised": (
        lambda odd: (torch.quantize_per_tensor(torch.ones(4) + odd, 0.1, 0, torch.qint8),), "10 and 20"),
    "scale": (
        lambda odd: (torch.quantize_per_tensor(torch.zeros(4), 0.1 + odd, 0, torch.qint8),), "0.1 0, rank 1 has"),
    "tied weights": (lambda odd: (tied(odd),), ""),
}  # fmt: skip
"""By name: what ranks hold, given 1 on the one that differs and 0 elsewhere; a line of the evidence."""


def compared(odd_one: int) -> list[dict[str, CheckResult]]:
    def work(rank: int) -> dict[str, CheckResult]:
        return {name: check_same(*make(float(rank == odd_one)), seconds=20) for name, (make, _) in KINDS.items()}

    return run_ranks(2, work)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_difference_of_every_kind_is_named_by_both_ranks() -> None:
    for rank in compared(1):
        for name, (_, evidence) in KINDS.items():
            result = rank[name]
            assert not result, name
            assert {finding.kind for finding in result.findings} == {"replicas_differ"}, (name, result)
            lines = [line for finding in result.findings for line in finding.evidence]
            assert not evidence or any(evidence in line for line in lines), (name, lines)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_alike_of_every_kind_are_silent() -> None:
    for rank in compared(-1):
        for name, result in rank.items():
            assert result, (name, result)
            assert not result.findings


@pytest.mark.parametrize("orders", [([0, 6], [2, 4]), ([1, 5, 9], [3, 5, 7])])
def test_orders_of_the_same_integers_have_fingerprints_of_their_own(orders: tuple[list[int], list[int]]) -> None:
    one, two = (torch.zeros(16, dtype=torch.int64).index_fill(0, torch.tensor(order), 1) for order in orders)
    assert digest(one) != digest(two)
    assert digest(one) == digest(one.clone())
