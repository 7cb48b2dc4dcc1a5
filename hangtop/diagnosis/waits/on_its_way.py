"""Whether what waiting ranks wait for comes in, little by little, though nothing else of the job is seen to move."""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.diagnosis.evidence.sockets import FRESH_S, creeps
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.tables.thresholds import SLOW_PATH_BYTES_PER_S, TRICKLE_BYTES_PER_S
from hangtop.diagnosis.waits.rank_status import RankStatus


def on_its_way(job: Job, statuses: Iterable[RankStatus]) -> bool:
    """Whether data go between ranks that all wait: by what one connection gets rid of, or by what most ranks carry."""
    return creeps(job) or _trickles(job, statuses)


def _trickles(job: Job, statuses: Iterable[RankStatus]) -> bool:
    """At least half of the ranks carried some data between their last two looks, both since the job stands still.

    Over a path that loses packets a collective goes on in bursts, and seldom has more to send when it is looked at.
    Of more than a little a node's traffic tells.
    """
    if not job.live:
        return False
    since = max(job.now - (job.stood_still or 0.0), 0.0)
    present = [one for one in statuses if one.present]
    carry = sum(_carries(one, since, job.now) for one in present)
    return carry > 1 and carry * 2 >= len(present)


def _carries(status: RankStatus, since: float, now: float) -> bool:
    doing = status.activity
    if doing is None or status.state not in ("waiting", "on_gpu") or now - doing.at > FRESH_S:
        return False
    if not TRICKLE_BYTES_PER_S <= (doing.carried or 0.0) < SLOW_PATH_BYTES_PER_S:
        return False
    looks = status.readings
    return len(looks) > 1 and looks[-2].at >= since
