"""Ranks that wait for one another over connections of their own program's: whoever is at the far end is waited for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.waits.rank_status import RankStatus, waiting_for

_HOLDER = re.compile(r"^tcp \S+, process (\d+) ")
_RECEIVES = frozenset(("read", "readv", "recvfrom", "recvmsg", "accept", "accept4", "connect"))


def told_by_connections(job: Job, statuses: Iterable[RankStatus]) -> dict[int, RankStatus]:
    """Ranks that the kernel keeps in a call on a connection to another living rank of their node.

    Only where nothing else says what they do: a rank that reads its data from a server beside another rank does that.
    """
    found: dict[int, RankStatus] = {}
    ranks: dict[tuple[str, int], int] = {}
    for status in statuses:
        doing = status.activity
        if status.state != "working" or doing is None or doing.kind != "code" or doing.waits != "storage":
            continue
        far = _HOLDER.match(doing.waiting_on)
        if far is None:
            continue
        ranks = ranks or {(one.node, one.process.pid): one.rank for one in job.ranks if one.gone_at is None}
        peer = ranks.get((status.node, int(far[1])))
        if peer is None or peer == status.rank:
            continue
        receives = doing.syscall in _RECEIVES
        label = f"waits to {'receive from' if receives else 'send to'} {rank_text(peer)}, over TCP"
        told = doing._replace(kind="p2p", waits="peers", op="recv" if receives else "send", peer=peer, label=label)
        found[status.rank] = waiting_for(job, status, told)
    return found
