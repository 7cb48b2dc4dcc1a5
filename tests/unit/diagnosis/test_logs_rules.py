"""What log lines prove: NCCL's warnings, the watchdog, torch's checks, the rendezvous."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.fabric import PortUse
from hangtop.diagnosis.collectives.watchdog import edges_by_watchdog
from hangtop.diagnosis.job import NetworkUse
from tests.support.jobs import COMPUTING, NOW, READING, Sketch, after, alarms, first, kinds, port


def test_a_dead_link_makes_victims() -> None:
    job = after()
    job.says("nccl.warn", 1, ago=60, signature="ib_retry_exceeded", peer="10.0.0.7", device="mlx5_2")
    job.says("nccl.warn", 0, ago=59, signature="connection_closed", peer="10.0.0.3")
    job.says("torch.watchdog_timeout", 0, ago=20, op="ALLREDUCE", seq=9, timeout_ms=600_000)
    verdict = job.verdict()
    assert first(verdict).kind == "ib_retry_exceeded"
    assert all(one.cause for one in verdict.findings[1:])


def test_duplicate_gpu_and_ordinal() -> None:
    twice = after().says("nccl.warn", 1, ago=9, signature="duplicate_gpu", group_ranks=[0, 1], device="1a000")
    assert (first(twice.verdict()).kind, first(twice.verdict()).ranks) == ("duplicate_gpu", (0, 1))
    ordinal = after().says("torch.cuda_error", 3, ago=9, signature="invalid_device", error="invalid device ordinal")
    assert (first(ordinal.verdict()).kind, first(ordinal.verdict()).ranks) == ("invalid_device", (3,))


def test_socket_fallback() -> None:
    job = Sketch()
    job.ranks().at(COMPUTING)
    job.node("node1", ports=(port(),)).node("node2", ports=(port(),))
    job.says("nccl.network", 0, ago=9, network="Socket")
    found = first(job.verdict())
    assert (found.kind, found.nodes) == ("network_socket_fallback", ("node1",))
    plain = Sketch()
    plain.ranks().at(COMPUTING)
    plain.says("nccl.network", 0, ago=9, network="Socket")
    assert alarms(plain.verdict()) == [], "without an adapter a socket is right"


def test_watchdog_names_who_had_launched_least() -> None:
    job = after()
    for rank in range(4):
        job.says(
            "torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=1829, ran_ms=600_000, group_name="default_pg"
        )
        job.says("torch.watchdog_status", rank, ago=9, enqueued=1828 if rank == 2 else 1830, completed=1828, work=1829,
                 group_name="default_pg")  # fmt: skip
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", (2,))
    assert "ALLREDUCE #1829" in found.summary


def test_the_rank_without_a_timeout_had_nothing_outstanding() -> None:
    job = after()
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, group_name="default_pg")
    job.says("log.end", 2, ago=9)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", (2,))


def test_a_log_that_was_not_read_is_not_silence() -> None:
    job = after()
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, group_name="default_pg")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", ())
    assert "logs of rank 2 were not read" in found.summary


def test_of_a_rank_that_lives_and_says_nothing_it_is_not_said_that_its_log_was_not_read() -> None:
    job = Sketch()
    job.ranks(0, 1, 3).gone(ago=8.0)
    job.ranks(2).at(READING)
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, group_name="default_pg")
    told = [one.summary for one in job.verdict().findings if one.kind == "watchdog_timeout"]
    assert told
    assert not any("were not read" in one for one in told)


def test_a_log_of_a_node_that_is_missing_is_not_silence() -> None:
    """Eight ranks a node and a log a node: a rank that a log should hold is silent, those of a missing log are not."""
    here, gone = after(24), after(24)
    for job, silent in ((here, {8}), (gone, set(range(8, 16)))):
        for rank in set(range(24)) - silent:
            job.says("torch.watchdog_timeout", rank, ago=9, source=f"node{rank // 8}.log", op="ALLREDUCE", seq=7,
                     group_name="default_pg")  # fmt: skip
    assert first(here.verdict()).ranks == (8,)
    assert first(gone.verdict()).ranks == ()


def parallel(guid: str, description: str, *ranks: int, silent: int | None = None, **fields: Any) -> Sketch:
    """Time-outs of one group of a job of eight, in one log of all."""
    job = after(8)
    for place, rank in enumerate(ranks):
        if rank != silent:
            job.says("torch.watchdog_timeout", rank, ago=9, source="job.log", op="ALLREDUCE", seq=7, numel_in=64,
                     guid=guid, group_name=description, group_rank=place, **fields)  # fmt: skip
    return job


def test_silence_counts_within_the_group() -> None:
    """Ranks 1, 3 and 7 of a group say that they waited; 5 is between them, and 0, 2, 4 and 6 are not in it."""
    found = first(parallel("4", "dp", 1, 3, 5, 7, silent=5).verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", (5,))
    assert first(parallel("4", "dp", 1, 3, 5, 7).verdict()).ranks == ()


def test_groups_of_one_description_are_told_apart_by_guid() -> None:
    """Pipeline stages have different numbers of parameters: their data parallel groups reduce different sizes."""
    job = parallel("4", "dp", 0, 1, 2, 3)
    for place, rank in enumerate((4, 5, 6, 7)):
        job.says("torch.watchdog_timeout", rank, ago=8, source="job.log", op="ALLREDUCE", seq=9, numel_in=128, guid="5",
                 group_name="dp", group_rank=place)  # fmt: skip
    assert kinds(job.verdict()) == ["watchdog_timeout"]
    named = after(8)
    for rank in range(8):
        named.says("torch.watchdog_timeout", rank, op="ALLREDUCE", seq=7, numel_in=64 if rank < 4 else 128, guid="4",
                   group_name="dp", group_rank=rank % 4)  # fmt: skip
    assert kinds(named.verdict()) == ["watchdog_timeout"], "a split has one name on both sides"


def test_a_wait_is_followed_into_another_group() -> None:
    """0 waits for 1 in their pair; 1 waits for 3 in a pair of its own, and 3 says nothing."""
    job = after(4)
    for rank, guid, place in ((0, "1", 0), (1, "2", 0), (1, "3", 1), (0, "3", 0)):
        if guid != "3":
            job.says("torch.watchdog_timeout", rank, ago=20 - rank, source="job.log", op="ALLREDUCE", seq=7, guid=guid,
                     group_name="tp", group_rank=place)  # fmt: skip
    job.says("torch.watchdog_status", 1, ago=9, source="job.log", guid="1", group_name="tp", group_rank=1, work=6,
             enqueued=6, completed=6)  # fmt: skip
    job.says("torch.watchdog_status", 3, ago=9, source="job.log", guid="2", group_name="tp", group_rank=1, work=5,
             enqueued=5, completed=5)  # fmt: skip
    job.says("torch.watchdog_status", 0, ago=9, source="job.log", guid="1", group_name="tp", group_rank=0, work=7,
             enqueued=7, completed=6)  # fmt: skip
    job.says("torch.watchdog_status", 1, ago=9, source="job.log", guid="2", group_name="tp", group_rank=0, work=7,
             enqueued=7, completed=6)  # fmt: skip
    assert first(job.verdict()).ranks == (3,)
    edges = edges_by_watchdog(job.job())
    assert {(edge.waiter, edge.for_ranks, edge.certain) for edge in edges} == {(0, (1,), True), (1, (3,), True)}


def test_places_in_a_chain_of_broadcasts_are_no_mismatch() -> None:
    job = after(4)
    for rank, (op, seq) in enumerate((("ALLREDUCE", 60), ("BROADCAST", 41), ("BROADCAST", 44), ("BROADCAST", 42))):
        job.says("torch.watchdog_timeout", rank, ago=9, op=op, seq=seq, numel_in=64, group_name="default_pg", guid="0")
    assert kinds(job.verdict()) == ["watchdog_timeout"]
    assert first(job.verdict()).ranks == ()


def test_a_line_without_a_group_repeats_the_rank_of_another_one() -> None:
    """Up to torch 2.13 "[Rank 3]" of a time-out is that of the process's first: its status has the group."""
    job = after(8)
    for place, rank in enumerate((1, 3, 5, 7)):
        job.says("torch.watchdog_timeout", rank, ago=9, source="job.log", op="ALLREDUCE", seq=7, group_rank=0)
        job.says("torch.watchdog_status", rank, ago=9, source="job.log", work=7, enqueued=7 if rank != 5 else 6,
                 completed=6, guid="4", group_name="dp", group_rank=place)  # fmt: skip
    assert first(job.verdict()).ranks == (5,)


def test_all_timed_out_in_the_same_operation() -> None:
    job = after()
    for rank in range(4):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, numel_in=64, group_name="default_pg")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", ())


def test_what_a_torn_line_leaves_out_is_no_difference() -> None:
    job = after()
    lines: list[dict[str, Any]] = [{"op": "ALLREDUCE", "numel_in": 64}, {"op": "ALLREDUCE"}, {"numel_in": 64}]
    for rank, told in enumerate(lines):
        job.says("torch.watchdog_timeout", rank, ago=9, seq=7, group_name="default_pg", **told)
    assert first(job.verdict()).kind == "watchdog_timeout"


@pytest.mark.parametrize(
    ("odd", "kind"),
    [({"op": "BROADCAST"}, "collective_mismatch"), ({"numel_in": 63}, "collective_size_mismatch")],
)
def test_watchdog_tells_what_was_outstanding(odd: dict[str, Any], kind: str) -> None:
    job = after()
    for rank in range(4):
        fields: dict[str, Any] = {
            "op": "ALLREDUCE",
            "seq": 7,
            "numel_in": 64,
            "group_name": "default_pg",
            **(odd if rank == 1 else {}),
        }
        job.says("torch.watchdog_timeout", rank, ago=9, **fields)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == (kind, (1,))


def test_fingerprints_are_put_to_the_vote() -> None:
    """Every line names a pair; rank 0 is the odd one, and each of the others says so."""
    job = after()
    for rank in (1, 2, 3):
        job.says("torch.fingerprint", rank, ago=9, rank_a=rank, op_a="ALLREDUCE", shape_a=[4], dtype_a="Float", seq_a=1,
                 rank_b=0, op_b="BROADCAST", shape_b=[4], dtype_b="Float", seq_b=1, differs=["op"])  # fmt: skip
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (0,))


def test_fingerprints_that_differ_in_shape() -> None:
    job = after()
    for rank in (0, 2):
        job.says("torch.fingerprint", rank, ago=9, rank_a=rank, op_a="ALLREDUCE", shape_a=[4], dtype_a="Float",
                 rank_b=1, op_b="ALLREDUCE", shape_b=[8], dtype_b="Float", differs=["shape"])  # fmt: skip
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_size_mismatch", (1,))


def test_who_did_not_join() -> None:
    barrier = after().says("torch.barrier_failed", 0, ago=9, missing=[1, 3], timeout_ms=8000)
    assert (first(barrier.verdict()).kind, first(barrier.verdict()).ranks) == ("collective_mismatch", (1, 3))
    desync = after().says("torch.desync", 0, ago=9, lagging=[1], finished=2, missing=3)
    assert first(desync.verdict()).ranks == (1,)
    assert "#3" in first(desync.verdict()).summary


def test_unused_parameters() -> None:
    job = after().says("torch.unused_parameters", 0, ago=9, names=["head.bias"], indices=[7])
    found = first(job.verdict())
    assert found.kind == "unused_parameters"
    assert "head.bias" in found.summary


def test_address_in_use_with_its_holder() -> None:
    job = Sketch()
    use = PortUse(29500, ["4711 python old.py"], True, 0, 0)
    job.node("node1", network=NetworkUse(ports=(use,)))
    job.says("torch.address_in_use", 0, ago=9, port=29500)
    found = first(job.verdict())
    assert found.kind == "address_in_use"
    assert "4711 python old.py on node1" in found.summary


def test_store_timeout_names_who_did_not_come() -> None:
    job = after()
    for rank in (0, 1, 3):
        job.says("torch.store_retry", rank, ago=20)
    job.says("torch.store_timeout", 0, ago=9, joined=3, expected=4, seconds=300, phase="clients")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("store_timeout", (2,))
    assert "3 of 4" in found.summary


def test_communicator_that_never_came_up() -> None:
    job = after()
    for rank in range(3):
        job.says("nccl.init", rank, ago=90, phase="start", comm_id="0xabc", group_rank=rank, size=4)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("init_hang", (3,))
    for rank in range(4):
        job.says("nccl.init", rank, ago=89, phase="start", comm_id="0xabc", group_rank=rank, size=4)
        job.says("nccl.init", rank, ago=88, phase="complete", comm_id="0xabc", group_rank=rank, size=4)
    assert alarms(job.verdict()) == []


def test_storage_that_does_not_answer() -> None:
    job = Sketch()
    job.ranks().at(COMPUTING)
    job.says("kernel.storage", node="node2", ago=30, system="NFS", server="fs1", ok=False)
    assert first(job.verdict()).kind == "storage_stalled"
    job.says("kernel.storage", node="node2", ago=3, system="NFS", server="fs1", ok=True)
    assert alarms(job.verdict()) == []


def test_stuck_tasks() -> None:
    job = Sketch()
    job.ranks().at(COMPUTING)
    job.says("kernel.hung_task", node="node1", at=NOW - 9, pid=1001, process="python", seconds=120)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("kernel_trouble", (1,))
    assert kinds(job.verdict()) == ["kernel_trouble"]
