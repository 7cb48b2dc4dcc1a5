"""A check that is asked of one process group, on the pages of real ranks: that group makes it, nobody else waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import hangtop.inside
from collectors.node.processes.page_reading import facts_of
from collectors.probes.inside.remote.question import write
from collectors.samples.page import OF_GROUP, TOLD_GROUPS_LIMIT, group_number
from hangtop.inside import results
from hangtop.inside.results import CheckResult, latest
from tests.support.torch_ranks import free_port, run_ranks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

WORLD = 4
FOREVER = 600.0
"""Seconds beyond what ranks here may take in all: who waits for an absent one fails the test."""
Prepare = Callable[[int, Any, Any], None]


def asked(
    rank: int, check: str, group: tuple[int, ...], *, to: tuple[int, ...] = (), seconds: float = FOREVER,
    prepare: Prepare | None = None,
) -> list[CheckResult]:  # fmt: skip
    """One rank of dp=2 × tp=2 that makes three steps and is asked at the second; what its page says at the end."""
    from torch.distributed.device_mesh import init_device_mesh

    results._latest.clear()  # what another test left in the process that this one was forked from
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(rank % 2)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    hangtop.inside.start(tracer=False, stacks=False, recorder=False, automatic=False, quiet=True)
    hangtop.inside.follow(model, optimizer)
    if prepare is not None:
        prepare(rank, model, mesh)
    if rank in (to or group):
        done = write(os.getpid(), 77, check, 2, seconds, group_number(group))
        assert done.written, done.why
    for step in (1, 2, 3):
        hangtop.inside.step(step)
        torch.distributed.all_reduce(torch.ones(1))  # nobody is held up for longer than the check takes
    return latest()


def flipped(rank: int, model: Any, mesh: Any) -> None:
    if rank == 2:
        model.weight.detach().view(torch.int32)[3, 4] ^= 1


def summaries(results: list[list[CheckResult]]) -> list[list[str]]:
    return [[one.summary for one in found] for found in results]


def test_one_bit_in_a_group_is_named_there_and_the_others_are_not_asked() -> None:
    first, second, third, fourth = run_ranks(WORLD, lambda rank: asked(rank, "same", (0, 2), prepare=flipped))
    assert (second, fourth) == ([], [])
    for (result,) in (first, third):
        assert (list(result.ranks), result.number, result.ok) == ([0, 2], 77, False)
        (finding,) = result.findings
        assert finding.summary == "weight differs on rank 2 from that of rank 0"
        assert "1 of 64 elements, the first at [3, 4]" in finding.evidence[0]


def test_its_healthy_twin_is_silent() -> None:
    first, second, third, fourth = run_ranks(WORLD, lambda rank: asked(rank, "same", (1, 3), prepare=flipped))
    assert (first, third) == ([], [])
    for (result,) in (second, fourth):
        assert (list(result.ranks), result.ok, list(result.findings)) == ([1, 3], True, [])
        assert "are equal on 2 ranks, bit by bit" in result.summary


@pytest.mark.parametrize("check", [check for check in OF_GROUP if check != "same"])
def test_each_check_of_a_group_is_made_by_its_ranks(check: str) -> None:
    first, second, third, fourth = run_ranks(WORLD, lambda rank: asked(rank, check, (2, 3)))
    assert (first, second) == ([], [])
    for (result,) in (third, fourth):
        assert (result.check, list(result.ranks)) == (check, [2, 3])
        assert not [finding for finding in result.findings if finding.kind != "straggler_rank"], result.summary
        assert "2 ranks" in result.summary


@pytest.mark.parametrize(("comes", "absent"), [(0, 2), (2, 0)])
def test_a_member_that_does_not_come_is_named_and_the_job_goes_on(comes: int, absent: int) -> None:
    results = run_ranks(WORLD, lambda rank: asked(rank, "barrier", (0, 2), to=(comes,), seconds=0.5))
    (result,) = results.pop(comes)
    assert results == [[], [], []]
    (finding,) = result.findings
    assert (finding.kind, list(finding.ranks)) == ("check_incomplete", [absent])
    assert f"rank {absent} did not come in time" in finding.summary


def test_ranks_that_are_no_process_group_are_told_so_at_once() -> None:
    results = run_ranks(WORLD, lambda rank: asked(rank, "barrier", (0, 3)))
    why = "check barrier was not made: this job has no process group of the ranks that were asked"
    assert summaries(results) == [[why], [], [], [why]]


@pytest.mark.parametrize(("group", "replicas"), [((0, 2), True), ((0, 1), False)])
def test_ranks_that_the_job_calls_no_replicas_are_not_compared(group: tuple[int, int], *, replicas: bool) -> None:
    def follow(rank: int, model: Any, mesh: Any) -> None:
        hangtop.inside.follow(model, group=mesh.get_group("dp"))

    results = run_ranks(WORLD, lambda rank: asked(rank, "same", group, prepare=follow))
    for rank in group:
        (result,) = results[rank]
        assert result.ok is replicas, result.summary
        wanted = "are equal on 2 ranks" if replicas else "no replicas of one another"
        assert wanted in result.summary


def test_a_rank_that_knows_no_model_says_so_and_nobody_waits_for_it() -> None:
    def forget(rank: int, model: Any, mesh: Any) -> None:
        from hangtop.inside.hooks import hooked

        if rank == 2:
            hooked.model = None
            hooked.optimizers.clear()

    first, _, third, _ = run_ranks(WORLD, lambda rank: asked(rank, "same", (0, 2), prepare=forget))
    assert summaries([first]) == summaries([third])
    (finding,) = first[0].findings
    assert (finding.kind, list(finding.ranks)) == ("check_incomplete", [2])
    assert finding.summary.startswith("check same could not be made on rank 2: no model and no optimizer is known here")


@pytest.mark.parametrize("late", [0, 2])
def test_a_rank_that_saw_it_too_late_says_so_and_nobody_waits_for_it(late: int) -> None:
    """It waits for nobody either: the others come to their check only after the step that it is in."""

    def ahead(rank: int, model: Any, mesh: Any) -> None:
        if rank == late:
            step = hangtop.inside.step
            hangtop.inside.step = lambda number=None: step((number or 0) + 5)

    first, _, third, _ = run_ranks(WORLD, lambda rank: asked(rank, "same", (0, 2), prepare=ahead))
    why = f"check same could not be made on rank {late}: it was seen at step 6, too late for step 2"
    assert summaries([first, third]) == [[why], [why]]


def test_ranks_tell_their_groups_by_their_pages() -> None:
    def work(rank: int) -> list[str]:
        from collectors.node.processes.pages import find, memfd_device
        from collectors.samples.page import SIZE

        torch.distributed.new_group([0, 1, 3])
        torch.distributed.new_group([0, 1, 3])
        asked(rank, "barrier", (0, 2), to=(9,))
        device = memfd_device()
        assert device is not None
        page = find("/proc", os.getpid(), os.getuid(), device)
        assert page is not None
        return facts_of(page.read(SIZE), os.getpid(), 0).groups

    first, second, third, _ = run_ranks(WORLD, work)
    assert first == ["0,1,3", "0-2:2 mesh_dp", "0-1:1 mesh_tp"]
    assert second == ["0,1,3", "1-3:2 mesh_dp", "0-1:1 mesh_tp"]
    assert third == ["0-2:2 mesh_dp", "2-3:1 mesh_tp"]


def test_of_more_groups_than_fit_the_first_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from hangtop.inside import process_groups

    groups = [SimpleNamespace(group_desc=f"number {at}", ranks=[at, at + 5, at + 7]) for at in range(40)]
    distributed = SimpleNamespace(get_process_group_ranks=lambda group: group.ranks, get_world_size=lambda: 99)
    monkeypatch.setattr(process_groups, "distributed_now", lambda: distributed)
    monkeypatch.setattr(process_groups, "_groups", lambda: iter(groups))
    told = process_groups.told_groups()
    assert len(told) <= TOLD_GROUPS_LIMIT
    assert told.split("\n")[:2] == ["0,5,7 number 0", "1,6,8 number 1"]
    assert process_groups.runs([4]) == "4-4:1"


def test_of_two_groups_of_the_same_ranks_all_take_the_first() -> None:
    def work(rank: int) -> bool:
        from hangtop.inside.process_groups import backends_of, group_by_number

        made = [torch.distributed.new_group([1, 3]) for _ in range(2)]
        found = group_by_number(group_number([3, 1]))
        assert group_by_number(group_number([0, 1, 2])) is None
        assert group_by_number(group_number(range(WORLD))) is torch.distributed.group.WORLD
        assert "gloo" in backends_of(None)
        return found is (made[0] if rank in (1, 3) else None)

    assert run_ranks(WORLD, work) == [True] * WORLD


def test_what_carries_a_group_is_known_where_the_job_named_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    from hangtop.inside.checks import speed

    def work(rank: int) -> tuple[str, str]:
        torch.distributed.destroy_process_group()
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT=str(free_port()))
        torch.distributed.init_process_group()
        from hangtop.inside.process_groups import backends_of

        return str(torch.distributed.get_backend()), backends_of(None)

    ((named, carried),) = run_ranks(1, work)
    assert (named, carried) == ("undefined", "cpu:gloo")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    for told, device in (("cpu:gloo,cuda:nccl", "cuda:3"), ("cuda:nccl", "cuda:3"), ("cpu:gloo", "cpu")):
        monkeypatch.setattr(speed, "backends_of", lambda group, told=told: told)
        assert str(speed._device(torch, None)) == device
