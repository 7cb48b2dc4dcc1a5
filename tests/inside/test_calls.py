"""check_calls and barrier, over real ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hangtop.inside import CallsDiffer, barrier, check_calls
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

dist = torch.distributed


def watched(run: Callable[[int], object], world: int = 3) -> list[tuple[str, int]]:
    """What stopped each rank, empty for nothing, and how many collectives were compared."""
    stopped: list[CallsDiffer] = []

    def work(rank: int) -> tuple[str, int]:
        dist.barrier()  # however late one of them came up
        with_calls = check_calls(seconds=2.0)
        try:
            with with_calls:
                run(rank)
        except CallsDiffer as differ:
            stopped.append(differ)  # and with it the sends in its frames: gloo loses those that are dropped
            return str(differ), with_calls.compared
        return "", with_calls.compared

    return run_ranks(world, work)


def conditional(rank: int) -> None:
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        dist.broadcast(torch.ones(4), 0)
    else:
        dist.all_reduce(torch.ones(4))


def other_shape(rank: int) -> None:
    dist.all_reduce(torch.ones(4 + (rank == 2)))


def other_type(rank: int) -> None:
    dist.all_reduce(torch.ones(4, dtype=torch.float64 if rank == 0 else torch.float32))


def left_out(rank: int) -> None:
    dist.all_reduce(torch.ones(4))
    if rank != 2:
        dist.all_reduce(torch.ones(8))


def trained(rank: int) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
    gathered = [torch.zeros(2) for _ in range(3)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    dist.barrier()
    dist.all_gather_object([None] * 3, {"rank": rank, "text": "x" * rank})


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (conditional, ("allreduce_ float32[4] at test_calls.py:", "broadcast_ float32[4]")),
        (other_shape, ("allreduce_ float32[4]", "allreduce_ float32[5]")),
        (other_type, ("allreduce_ float64[4]", "allreduce_ float32[4]")),
    ],
    ids=["conditional", "shape", "type"],
)
def test_the_first_difference_stops_with_both_lines(run: Callable[[int], None], words: tuple[str, str]) -> None:
    told = watched(run)
    for why, compared in told:
        assert compared == (1 if run is conditional else 0)
        assert "call different collectives" in why or "did not come" in why
    assert any(all(word in why for word in words) for why, _ in told), told


def test_who_does_not_come_is_named_with_its_last_call() -> None:
    told = watched(left_out)
    assert told[2] == ("", 1)
    assert "rank 2 did not come to allreduce_ float32[8]" in told[0][0]
    assert "rank 2 did not come within 2 s; its last call: allreduce_ float32[4] at test_calls.py:" in told[0][0]


def test_ddp_and_uneven_objects_pass() -> None:
    told = watched(trained)
    assert [why for why, _ in told] == ["", "", ""]
    assert {compared for _, compared in told} == {told[0][1]}
    assert told[0][1] >= 5


def test_a_barrier_ends_in_time_and_names_the_absent() -> None:
    def work(rank: int) -> list[CheckResult]:
        first = barrier(20.0)
        return [first] if rank == 1 else [first, barrier(1.0)]

    results = run_ranks(3, work)
    assert all(found[0] for found in results)
    missed = results[0][1]
    assert not missed
    assert list(missed.findings[0].ranks) == [1]
    assert missed.findings[0].evidence[0].startswith("rank 1 was last seen in check barrier at test_calls.py:")
