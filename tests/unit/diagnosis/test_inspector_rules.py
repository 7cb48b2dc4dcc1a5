"""What the speeds of single operations show: who comes last, who is slow, which group, which pair; and equal ones."""

from __future__ import annotations

from collectors.node.logs.inspector import Speeds
from collectors.samples.logs import CommSpeed
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.rules.inspector import measured
from tests.support.inspector import NOW_US, file
from tests.support.jobs import NOW, Sketch

assert NOW_US / 1e6 == NOW


def steady(rate: float) -> list[float]:
    return [rate * (0.95 + 0.01 * (number % 10)) for number in range(32)]


def told(files: dict[int, str], world: int = 8) -> list[Finding]:
    """Findings of a job whose ranks wrote these files."""
    by_node: dict[str, list[CommSpeed]] = {}
    for rank, text in files.items():
        seen = Speeds(f"/out/node-pid{1000 + rank}.log")
        seen.take(text.encode())
        node = f"node{rank * 2 // world + 1}"
        by_node.setdefault(node, []).extend(speed._replace(global_rank=rank) for speed in seen.told())
    job = Sketch(world=world, nodes=2)
    for name, speeds in by_node.items():
        job.node(name, speeds=tuple(speeds))
    return list(measured(job.job()))


def test_equal_ranks_are_no_finding() -> None:
    assert told({rank: file(rank, steady(300.0 + 8 * rank)) for rank in range(8)}) == []


def test_a_rank_far_under_its_peers() -> None:
    (found,) = told({rank: file(rank, steady(40.0 if rank == 5 else 300.0)) for rank in range(8)})
    assert (found.kind, found.ranks, found.nodes) == ("bandwidth_low", (5,), ("node2",))
    assert found.summary == "rank 5 on node2 has 39.6 GB/s in AllReduce of 1.0 GiB where its peers have 297.0"


def test_the_rank_that_all_wait_for_is_the_fast_one() -> None:
    (found,) = told({rank: file(rank, steady(300.0 if rank == 2 else 40.0)) for rank in range(8)})
    assert (found.kind, found.ranks, found.nodes) == ("straggler_rank", (2,), ("node1",))
    assert found.summary.startswith("rank 2 on node1 comes last to AllReduce of 1.0 GiB: the others wait there for it")


def test_what_jumps_is_small_or_was_seen_seldom_is_no_finding() -> None:
    jumping = [40.0, 600.0] * 16
    assert told({rank: file(rank, jumping if rank == 5 else steady(300.0)) for rank in range(8)}) == []
    assert told({rank: file(rank, steady(40.0 if rank == 5 else 300.0), size=4096) for rank in range(8)}) == []
    assert told({rank: file(rank, steady(40.0 if rank == 5 else 300.0)[:8]) for rank in range(8)}) == []
    assert told({rank: file(rank, steady(40.0 if rank == 0 else 300.0), ranks=8) for rank in range(3)}) == []


def test_half_of_the_ranks_are_no_odd_ones() -> None:
    assert told({rank: file(rank, steady(40.0 if rank % 2 else 300.0)) for rank in range(8)}) == []


def test_what_was_measured_long_ago_says_nothing_of_now() -> None:
    old = {
        rank: file(rank, steady(40.0 if rank == 5 else 300.0)).replace(str(NOW_US), str(NOW_US - 3_600_000_000))
        for rank in range(8)
    }
    assert told(old) == []


def test_a_group_that_is_slow_as_a_whole() -> None:
    def of(rank: int) -> str:
        group = rank % 4
        rate = 45.0 if group == 1 else 300.0
        return file(rank // 4, steady(rate), comm=f"0x{group}", name=f"dp{group}", ranks=2, op="AllGather", pid=rank)

    (found,) = told({rank: of(rank) for rank in range(8)})
    assert (found.kind, found.ranks, found.nodes) == ("bandwidth_low", (1, 5), ("node1", "node2"))
    assert "in dp1, 3 groups like it of 2 ranks" in found.summary
    assert "45" in found.summary


def test_a_pair_that_is_slow_even_at_its_best() -> None:
    def of(rank: int) -> str:
        slow = rank == 3
        rates = [30.0] * 32 if slow else [2.0, 90.0] * 16  # the others wait for one another half of the time
        return file(rank, rates, op="Send", peer=(rank + 1) % 8)

    (found,) = told({rank: of(rank) for rank in range(8)})
    assert (found.kind, found.ranks, found.nodes) == ("slow_link", (3, 4), ("node1", "node2"))
    assert found.summary.startswith("rank 3 to rank 4: 30.0 GB/s at best in Send of 1.0 GiB, other pairs 90.0")
