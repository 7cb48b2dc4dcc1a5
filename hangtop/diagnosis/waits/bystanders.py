"""Processes without a number that nobody waits for: notebooks and servers that sit idle are listed, and not judged.

A process that says no rank may be one of a hung job, and as well a notebook that waits for its user. Which it is tells
whether anything among those that run the same waits for a peer, or was seen to work.
"""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.diagnosis.job import Rank
from hangtop.diagnosis.waits.rank_status import RankStatus

SERVERS = ("vllm::", "sglang::")
"""Beginnings of the titles of inference servers: their workers wait in a broadcast for the next request."""


def only_listed(statuses: Iterable[RankStatus]) -> bool:
    """True for ranks that are all without a number, do nothing, and of which none waits for another."""
    present = [status for status in statuses if status.present]
    return bool(present) and all(_idle(status) for status in present)


def _idle(status: RankStatus) -> bool:
    if status.process is None or status.rank >= 0:
        return False
    if status.state in ("waiting", "on_gpu") and not is_server(status.process):
        return False
    motion = status.motion
    moved = (motion.cpu is not None and not motion.blocked) or motion.moves_data or motion.helped
    return not moved


def is_server(rank: Rank) -> bool:
    """True for a worker of an inference server."""
    return rank.process.label.lower().startswith(SERVERS)
