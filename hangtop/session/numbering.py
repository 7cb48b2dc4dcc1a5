"""Numbers for ranks that do not say theirs, by what NCCL's RAS answers.

A place in a communicator is the rank of the job only where that communicator holds all of the job's processes: the
report must name no other process, and each rank that is seen must be one of its members and no two the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.session.job_selection import select_job
from hangtop.session.state.job_state import JobState, NodeState, RankState


def numbers_of(report: RasReport, state: JobState) -> list[tuple[RankState, int]]:
    """The living ranks without a number, each with the one that RAS tells; nothing where that leaves any doubt."""
    every = [rank for node in state.nodes.values() for rank in node.ranks.values()]
    if all(rank.process.rank >= 0 for rank in every):
        return []
    ranks = [rank for rank in select_job(every).ranks if rank.gone_at is None]
    names = {node.name: _names(node) for node in state.nodes.values()}
    own: dict[tuple[str, int], set[str]] = defaultdict(set)
    for node, dump in state.stacks:
        own[node, dump.rank_pid].update(dump.addresses)
    told = [_places(one, ranks, names, own) for one in _whole(report)]
    if not told or any(one != told[0] for one in told) or len(told[0]) < len(ranks):
        return []
    numbers = [told[0][rank.node, rank.process.pid] for rank in ranks]
    placed = list(zip(ranks, numbers, strict=True))
    if any(rank.process.rank != number for rank, number in placed if rank.process.rank >= 0):
        return []
    return [(rank, number) for rank, number in placed if rank.process.rank < 0]


def _whole(report: RasReport) -> list[RasCommunicator]:
    """The communicators that hold every process that the report names."""
    every = {_who(member) for one in report.communicators for member in one.ranks}
    return [one for one in report.communicators if {_who(member) for member in one.ranks} == every]


def _who(member: RasRank) -> tuple[str, int]:
    return member.host, member.pid


def _places(
    one: RasCommunicator,
    ranks: Sequence[RankState],
    names: Mapping[str, Collection[str]],
    own: Mapping[tuple[str, int], Collection[str]],
) -> dict[tuple[str, int], int]:
    """Place in the communicator by node and pid, of those ranks whose process is told without doubt.

    ``own`` are the addresses of processes in networks of their own: in containers pids are alike, and these are not.
    """
    found: dict[tuple[str, int], int] = {}
    by_pid: dict[int, list[RankState]] = defaultdict(list)
    for rank in ranks:
        by_pid[rank.process.own_pid or rank.process.pid].append(rank)
    several = len(names) > 1 or len({member.host for member in one.ranks}) > 1
    for member in one.ranks:
        alike = by_pid.get(member.pid, [])
        exact = [rank for rank in alike if member.host in own.get((rank.node, rank.process.pid), ())]
        if exact:
            alike = exact
        elif several:
            alike = [rank for rank in alike if member.host in names[rank.node]]
        if len(alike) == 1:
            key = alike[0].node, alike[0].process.pid
            if key in found:
                return {}  # two GPUs of one process: it has two places
            found[key] = member.rank
    return found


def _names(node: NodeState) -> frozenset[str]:
    """What RAS may call a node: by an address, or by its name."""
    addresses = (
        address.partition("/")[0] for interface in node.interfaces.values() for address in interface.facts.addresses
    )
    hostname = node.hello.hostname if node.hello is not None else ""
    return frozenset({*addresses, node.name.rpartition("@")[2], hostname, hostname.partition(".")[0]} - {""})
