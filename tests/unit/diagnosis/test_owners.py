"""Whose process NCCL or RAS means by a host and a pid."""

from __future__ import annotations

from dataclasses import replace

from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.job import Job
from tests.support.jobs import ALL_REDUCE, Sketch


def in_containers(*addresses: str) -> Job:
    """A rank a container, two on a node; each has the pid 7 there, and an address of its own if any."""
    job = Sketch(world=len(addresses), nodes=len(addresses) // 2)
    for rank, address in enumerate(addresses):
        job.ranks(rank).at(ALL_REDUCE, ports=[29500], addresses=[address] if address else [])
    made = job.job()
    return replace(made, ranks=tuple(replace(one, process=one.process._replace(own_pid=7)) for one in made.ranks))


def test_ranks_of_containers_are_told_apart_by_their_addresses_there() -> None:
    owners = CommRankResolver(in_containers("10.244.0.8", "10.244.0.9", "10.244.1.8", "10.244.1.9"))
    assert [owners.of(host, 7) for host in ("10.244.0.9", "10.244.1.8")] == [(1,), (2,)]
    assert owners.of("10.244.0.9", 8) == ()


def test_a_host_that_nobody_is_known_to_be_is_nobodys() -> None:
    assert CommRankResolver(in_containers("10.244.0.8", "", "", "")).of("10.244.7.7", 7) == ()
    assert CommRankResolver(in_containers("", "", "", "")).of("node2", 7) == (2, 3), "by the node's name both are meant"
