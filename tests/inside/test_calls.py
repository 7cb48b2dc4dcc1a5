"""check_calls, barrier and the measurements, over real ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hangtop.inside import CallsDiffer, bandwidth, barrier, check_calls, stragglers
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
        (conditional, ("allreduce_ float32[4] sum at test_calls.py:", "broadcast_ float32[4]")),
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


def other_reduction(rank: int) -> None:
    dist.all_reduce(torch.ones(4), op=dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)


def test_another_reduction_is_a_difference() -> None:
    told = watched(other_reduction)
    assert any("allreduce_ float32[4] max at test_calls.py:" in why and "float32[4] sum at" in why for why, _ in told)
    assert [compared for _, compared in told] == [0, 0, 0]


def ring(rank: int, *, length: int = 4, tag: int = 0, batch: bool = False, skips: int = -1) -> None:
    """Each rank sends to the next and receives from the one before; rank 1 other things than expected, or nothing."""
    after, before = (rank + 1) % 3, (rank - 1) % 3
    out, into = torch.ones(length if rank == 1 else 4), torch.zeros(4)
    tag = tag if rank == 1 else 0
    if batch:
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.irecv, into, before)] + [dist.P2POp(dist.isend, out, after, tag=tag)] * (rank != skips)
        )
    else:
        works = [dist.irecv(into, before)] + ([dist.isend(out, after, tag=tag)] if rank != skips else [])
    for work in works:
        work.wait()
    dist.barrier()


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"length": 5}, ("send float32[5] to rank 2", "recv float32[4] from rank 1", "different things")),
        ({"tag": 7}, ("rank 1 did not send what rank 2 waits for: recv float32[4] from rank 1",)),
        ({"skips": 1}, ("rank 1 did not send what rank 2 waits for: recv float32[4] from rank 1",)),
    ],
    ids=["size", "tag", "nothing sent"],
)
def test_sends_and_receives_that_do_not_fit(batch: bool, fault: dict[str, int], words: tuple[str, ...]) -> None:
    told = watched(lambda rank: ring(rank, batch=batch, **fault))
    why = told[2][0]
    assert all(word in why for word in words), told
    assert why.count("test_calls.py:") >= (2 if "length" in fault else 1)
    assert ("in a batch" in why) is batch
    if "tag" in fault:
        assert any("to rank 2, tag 7" in each for each, _ in told)


def test_who_sends_to_somebody_else_is_named() -> None:
    def run(rank: int) -> None:
        if rank == 0:
            dist.send(torch.ones(4), 2)
        elif rank == 1:
            dist.recv(torch.ones(4), 0)

    told = watched(run)
    assert "rank 0 did not send what rank 1 waits for" in told[1][0]
    assert "its last call: send float32[4] to rank 2 at test_calls.py:" in told[1][0]
    assert "rank 2 did not receive what rank 0 waits for" in told[0][0]


def exchanged(rank: int) -> None:
    """All the ways that a healthy job sends and receives by, with calls that are in flight at once."""
    ring(rank)
    ring(rank, batch=True)
    after, before = (rank + 1) % 3, (rank - 1) % 3
    early = [dist.irecv(torch.zeros(2), before, tag=tag) for tag in (5, 6)]
    late = [dist.isend(torch.ones(2), after, tag=tag) for tag in (6, 5)]
    for work in (*reversed(early), *late):
        work.wait()
    sent = dist.isend(torch.ones(3), after)  # gloo loses what it has not sent when the work is dropped
    dist.recv(torch.zeros(3), before)
    sent.wait()
    if rank == 0:
        dist.send_object_list([{"text": "x" * 50}], 1)
        dist.send(torch.ones(6), 2)
    elif rank == 1:
        dist.recv_object_list([None], 0)
    else:
        dist.recv(torch.zeros(6))  # from anybody
        dist.send(torch.ones(1), 1, tag=9)
    if rank == 1:
        dist.recv(torch.zeros(1), 2, tag=9)
    pair = dist.new_group([0, 2])
    if rank == 0:
        dist.send(torch.ones(2, 3), 2, group=pair)
    elif rank == 2:
        dist.recv(torch.zeros(3, 2), 0, group=pair)


def test_a_healthy_exchange_is_silent() -> None:
    before = torch._C._distributed_c10d.Work.wait
    told = watched(exchanged)
    assert [why for why, _ in told] == ["", "", ""]
    assert min(compared for _, compared in told) > 10
    assert torch._C._distributed_c10d.Work.wait is before


def test_who_does_not_come_is_named_with_its_last_call() -> None:
    told = watched(left_out)
    assert told[2] == ("", 1)
    assert "rank 2 did not come to allreduce_ float32[8]" in told[0][0]
    assert "rank 2 did not come within 2 s; its last call: allreduce_ float32[4] sum at test_calls.py:" in told[0][0]


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


def test_bandwidth_and_stragglers_within_the_group() -> None:
    def work(rank: int) -> list[Any]:
        return [bandwidth(sizes=(1 << 16,), seconds=30), stragglers(3, seconds=30)]

    for rates, even in run_ranks(2, work):
        assert rates
        assert "bus bandwidth: 0 MiB" in rates.summary
        assert "the same work takes" in even.summary
        assert not [finding for finding in even.findings if finding.kind != "straggler_rank"]


def test_a_second_context_knows_nothing_of_the_first() -> None:
    def work(rank: int, *, fault: bool) -> str:
        with check_calls(seconds=20):
            dist.all_reduce(torch.ones(4))
            dist.all_reduce(torch.ones(5))
        try:
            with check_calls(seconds=2):
                dist.broadcast(torch.ones(8), 0)
                if not (fault and rank == 2):
                    dist.all_reduce(torch.ones(5))
        except CallsDiffer as differ:
            return str(differ)
        return ""

    assert run_ranks(3, lambda rank: work(rank, fault=False)) == ["", "", ""]
    first, _, last = run_ranks(3, lambda rank: work(rank, fault=True))
    assert first.startswith("rank 2 did not come to allreduce_ float32[5]"), "what it called in the first is no answer"
    assert last == ""
