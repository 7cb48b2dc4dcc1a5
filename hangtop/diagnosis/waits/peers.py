"""The other side of a wait: the peer that frames of a send or a receive name, or the far end of a connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.addresses import nodes_by_address
from hangtop.diagnosis.collectives.wait_edge import WaitEdge
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.states import BlockedOn, Meaning, TargetKind, label_of
from hangtop.diagnosis.waits.rank_status import RankStatus, waiting_for


def peers_awaited(statuses: Iterable[RankStatus]) -> Mapping[int, int]:
    """Rank → the rank that its send or receive waits for; without those whose other side waits in the other half."""
    doing = {
        one.rank: one.activity for one in statuses if one.activity is not None and one.activity.kind == "p2p"
    }  # fmt: skip
    peers = {rank: own.peer for rank, own in doing.items() if own.peer is not None and own.peer != rank}
    return {
        rank: peer for rank, peer in peers.items() if not (peers.get(peer) == rank and doing[peer].op != doing[rank].op)
    }


def by_frames(statuses: Iterable[RankStatus]) -> Iterator[WaitEdge]:
    """The same as edges: what gloo's recorder keeps nothing of, and what is known without any recorder."""
    waiting = {one.rank: one for one in statuses if one.state == "waiting"}
    for rank, peer in peers_awaited(waiting.values()).items():
        doing = waiting[rank].activity
        assert doing is not None, "who waits for a peer was looked at"
        yield WaitEdge(rank, (peer,), "", doing.op, None, "stack", True)


_RECEIVES = frozenset(("read", "readv", "recvfrom", "recvmsg", "accept", "accept4", "connect"))


def told_by_connections(
    job: Job, statuses: Iterable[RankStatus], dumps: Mapping[int, tuple[str, Sequence[StackDump]]]
) -> dict[int, RankStatus]:
    """Ranks that the kernel keeps in a call on a connection to another living rank.

    ``dumps`` are the looks at each rank, with its node. Only where nothing else says what they do: a rank that reads
    its data from a server beside another rank does that.
    """
    found: dict[int, RankStatus] = {}
    peers: _Peers | None = None
    for status in statuses:
        doing = status.activity
        if status.state != "working" or doing is None or doing.kind != "code" or doing.waits != "storage":
            continue
        if doing.target.kind is not TargetKind.TCP:
            continue
        peers = peers or _Peers(job, dumps)
        peer = peers.at(status.node, doing.target)
        if peer is None or peer == status.rank:
            continue
        meaning, op = Meaning.OVER_TCP, "recv" if doing.syscall in _RECEIVES else "send"
        label = label_of(meaning, op, peer=peer)
        told = doing._replace(kind=meaning.kind, meaning=meaning, waits=meaning.waits, op=op, peer=peer, label=label)
        found[status.rank] = waiting_for(job, status, told)
    return found


class _Peers:
    """Which rank has the far end of a connection: on the same node its process is told, on another one its port."""

    def __init__(self, job: Job, dumps: Mapping[int, tuple[str, Sequence[StackDump]]]) -> None:
        living = [one for one in job.ranks if one.gone_at is None]
        self._by_pid = {(one.node, one.process.pid): one.rank for one in living}
        self._by_port: dict[tuple[str, int], int | None] = {}
        for rank in {one.rank for one in living} & dumps.keys():
            node, own = dumps[rank]
            mine = [dump for dump in own if dump.pid == dump.rank_pid]
            # two containers on one node may have one port each, and their own addresses tell them apart
            for place in {(host, port) for dump in mine for host in dump.addresses or [node] for port in dump.ports}:
                self._by_port[place] = rank if self._by_port.get(place, rank) == rank else None  # a fork has it, too
        self._nodes = nodes_by_address(job, ((node, dump) for node, own in dumps.values() for dump in own))

    def at(self, node: str, target: BlockedOn) -> int | None:
        """The rank at the far end of a connection of a node, where the process at that end is told, or its port."""
        if target.pid is not None:
            return self._by_pid.get((node, target.pid))
        place = target.host, target.port
        if place in self._by_port and self._nodes.get(target.host):
            return self._by_port[place]
        return self._by_port.get((self._nodes.get(target.host, ""), target.port))
