"""Ranks that wait for one another over plain sockets: the wait is followed to whoever does not send."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collectors.samples.fabric import Interface
from hangtop.diagnosis.job import NetworkUse
from hangtop.diagnosis.waits.job_status import status_of_job
from tests.support.jobs import READING, Sketch, first, kinds

RECEIVES = ["recvn ps.py:9", "main ps.py:32"]
COMPUTES = ["grad ps.py:19", "main ps.py:32"]


def from_rank(number: int) -> str:
    return f"tcp 127.0.0.1:{40000 + number}, process {1000 + number} (python3)"


def served(*, far: str = from_rank(0), far_of_server: str = from_rank(2)) -> Sketch:
    """Rank 0 gives weights to the others and takes their gradients; rank 2 owes it one."""
    job = Sketch(world=3, nodes=1, stood_still=40.0)
    job.ranks(1).at(RECEIVES, syscall="recvfrom", waiting_on=far)
    job.ranks(0).at(RECEIVES, syscall="recvfrom", waiting_on=far_of_server)
    job.ranks(2).at(COMPUTES, state="R", syscall="none").pulse(cores=1.0)
    return job


def test_whoever_does_not_send_holds_the_others_up() -> None:
    found = first(served().verdict())
    assert (found.kind, found.ranks) == ("waiting", (2,))
    assert "2 ranks wait" in found.summary
    assert "grad (ps.py:19)" in found.summary


@pytest.mark.parametrize("far", ["tcp 127.0.0.1:40000", "tcp 127.0.0.1:40000, process 71 (postgres)", "pipe"])
def test_who_waits_for_something_else_waits_for_no_rank(far: str) -> None:
    verdict = served(far=far, far_of_server=far).verdict()
    assert "rank_stuck_in_code" not in kinds(verdict)


def test_a_reader_on_a_connection_to_another_rank_reads_data() -> None:
    job = served()
    job.ranks(2).at(READING, syscall="recvfrom", waiting_on=from_rank(1)).pulse()
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("waiting", (2,))


def test_all_receive_from_one_another() -> None:
    job = served()
    job.ranks(2).at(RECEIVES, syscall="recvfrom", waiting_on=from_rank(1)).pulse()
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("p2p_deadlock", (0, 1, 2))


def apart(far: str = "tcp 10.0.0.2:40001", *, ports: Sequence[int] = (40001,)) -> Sketch:
    """Rank 1, on another node, reads its data, and rank 0 receives from it."""
    job = Sketch(world=2, nodes=2, stood_still=40.0)
    for index in (1, 2):
        eth = Interface("eth0", 1500, None, True, [f"10.0.0.{index}/24", f"fd00::1:{index}/64"], "physical")
        lo = Interface("lo", 65536, None, True, ["127.0.0.1/8", "10.9.9.9/32"], "loopback")
        job.node(f"node{index}", network=NetworkUse(interfaces=(eth, lo)))
    job.ranks(0).at(RECEIVES, syscall="recvfrom", waiting_on=far)
    job.ranks(1).at(READING, syscall="read", waiting_on="pipe", ports=ports)
    return job


@pytest.mark.parametrize("far", ["tcp 10.0.0.2:40001", "tcp [fd00::1:2]:40001"])
def test_the_far_end_on_another_node_is_known_by_its_port(far: str) -> None:
    found = first(apart(far).verdict())
    assert (found.kind, found.ranks) == ("rank_stuck_in_data", (1,))
    assert "1 other" in found.summary


@pytest.mark.parametrize(
    ("far", "ports"),
    [
        ("tcp 10.0.0.2:2049", (40001,)), ("tcp 10.0.0.3:40001", (40001,)), ("tcp 127.0.0.1:40001", (40001,)),
        ("tcp 10.9.9.9:40001", (40001,)), ("tcp 10.0.0.2:40001", ()),
    ],
)  # fmt: skip
def test_a_server_on_a_node_of_the_job_is_no_rank(far: str, ports: Sequence[int]) -> None:
    assert status_of_job(apart(far, ports=ports).job()).statuses[0].state == "working"


def contained(far: str, places: Sequence[tuple[str, int]], *, nodes: int) -> Sketch:
    """Rank 0 receives from ``far``; each further one is in a container, with an address and a port of its own there."""
    job = Sketch(world=1 + len(places), nodes=nodes, stood_still=40.0)
    job.ranks(0).at(RECEIVES, syscall="recvfrom", waiting_on=far, ports=[29500], addresses=["10.244.0.1"])
    for rank, (address, port) in enumerate(places, 1):
        job.ranks(rank).at(READING, syscall="read", waiting_on="pipe", ports=[port], addresses=[address])
    return job


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_the_far_end_in_a_container_is_known_by_its_address_there_and_its_port(nodes: int) -> None:
    job = contained("tcp 10.244.0.2:40001", [("10.244.0.2", 40001), ("10.244.0.3", 40001)], nodes=nodes)
    activity = status_of_job(job.job()).statuses[0].activity
    assert activity is not None
    assert activity.peer == 1


def test_an_address_that_containers_of_several_nodes_have_tells_nobody() -> None:
    job = contained("tcp 172.17.0.2:40001", [("172.17.0.2", 40001), ("172.17.0.2", 40002)], nodes=3)
    assert status_of_job(job.job()).statuses[0].state == "working"
