"""check_placement over real ranks: FSDP2, tensor and data parallel, each with a fault and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hangtop.inside import check_placement, check_same
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks, torch

pytestmark = pytest.mark.torch


def tower() -> Any:
    """Three residual blocks and a head, and a layer that no forward pass uses; alike on all ranks."""

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Linear(8, 16, bias=False)
            self.down = torch.nn.Linear(16, 8, bias=False)
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x: Any) -> Any:
            return self.norm(x + self.down(self.up(x).relu()))

    class Tower(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(Block() for _ in range(3))
            self.head = torch.nn.Linear(8, 8)
            self.extra = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    torch.manual_seed(0)
    return Tower()


def sharded(*, root: bool = True) -> Any:
    """FSDP2: each block a unit, and the rest with the root."""
    from torch.distributed.fsdp import fully_shard

    model = tower()
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model) if root else model


def plan(model: Any, mesh: Any) -> Any:
    """Tensor parallel: up by columns, down by rows."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def grid() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def placed(world: int, build: Callable[[int], Any]) -> list[CheckResult]:
    results = run_ranks(world, lambda rank: check_placement(build(rank), seconds=20))
    assert len({result.summary for result in results}) == 1
    return results


def test_a_parameter_outside_every_unit() -> None:
    (finding,) = placed(2, lambda rank: sharded(root=False))[0].findings
    assert (finding.kind, finding.severity) == ("placement_wrong", "critical")
    assert finding.summary.startswith("covered by no FSDP unit: head.weight, head.bias, extra.weight")


def test_one_wrong_placement_on_one_rank() -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    def build(rank: int) -> Any:
        model = plan(tower(), mesh := grid())
        up = model.layers[2].up
        if rank == 3:
            local = torch.zeros(16, 8)
            up.weight = torch.nn.Parameter(DTensor.from_local(local, mesh["tp"], [Replicate()]))
        assert isinstance(up.weight.placements[0], Shard if rank != 3 else Replicate)
        return model

    result = placed(4, build)[0]
    across = [finding for finding in result.findings if finding.severity == "critical"]
    assert [list(finding.ranks) for finding in across] == [[3]]
    assert across[0].summary == "layers.2.up.weight differs on rank 3 from 3 others"


def test_gradients_that_only_some_ranks_have_and_frozen_parameters() -> None:
    def build(rank: int) -> Any:
        model = tower()
        model.layers[0].norm.bias.requires_grad_(rank != 1)
        loss = model(torch.ones(2, 8)).sum() + (model.extra(torch.ones(1, 8)).sum() if rank == 0 else 0.0)
        loss.backward()
        return model

    findings = {finding.summary: finding for finding in placed(3, build)[0].findings}
    assert set(findings) == {
        "layers.0.norm.bias differs on rank 1 from 2 others",
        "gradient of layers.0.norm.bias differs on rank 1 from 2 others",
        "gradient of extra.weight differs on rank 0 from 2 others",
        "gradient of extra.bias differs on rank 0 from 2 others",
    }


def test_replicas_of_shards_are_compared() -> None:
    """TP × DP: the same shard on both data-parallel ranks, and one of them changed."""

    def work(rank: int, *, fault: bool) -> CheckResult:
        model = plan(tower(), grid())
        if fault and rank == 2:
            model.layers[1].up.weight.to_local().detach()[0, 3] += 1.0
        return check_same(model, seconds=20)

    results = run_ranks(4, lambda rank: work(rank, fault=True))
    (finding,) = results[0].findings
    assert finding.summary == "layers.1.up.weight (shard tp=0) differs on rank 2 from that of rank 0"
    assert list(finding.ranks) == [0, 2]
    assert all(run_ranks(4, lambda rank: work(rank, fault=False)))


def over_tensor_parallel() -> Any:
    """FSDP2 over tensor parallelism: parameters of the plan are sharded twice along the same dimension."""
    from torch.distributed.fsdp import fully_shard

    model = plan(tower(), mesh := grid())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    return fully_shard(model, mesh=mesh["dp"])


def test_shards_of_shards_are_no_replicas_and_lie_well() -> None:
    def work(rank: int, *, fault: bool) -> list[CheckResult]:
        model = over_tensor_parallel()
        if fault and rank == 3:
            model.layers[0].norm.weight.to_local().detach()[1] += 1.0
        return [check_same(model, seconds=20), check_placement(model, seconds=20)]

    same, placement = run_ranks(4, lambda rank: work(rank, fault=False))[0]
    assert same, same
    assert placement, placement
    same, placement = run_ranks(4, lambda rank: work(rank, fault=True))[0]
    assert [finding.summary for finding in same.findings] == [
        "layers.0.norm.weight (shard dp=1) differs on rank 3 from that of rank 2"
    ]
    assert placement, placement
