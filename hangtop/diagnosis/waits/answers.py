"""A rank that waits for an answer over the network: a service may take a while for each, and give one after another."""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, OWN_WORK_S, STOOD_STILL_S
from hangtop.diagnosis.waits.rank_status import RankStatus

AN_ANSWER_S = 10.0
"""Ours: a judge, a tokenizer or a store that is a service may take so long for one answer."""
SELDOM_PER_S = 1.0
"""Ours: who wakes oftener than once a second gets a few bytes each time, or only looks whether an answer came."""
_FEEDS = frozenset({"waits for a future", "waits for a thread to end", "waits for a pool of threads"})
"""Waits for what a thread of its own is to bring."""


def asks(status: RankStatus) -> bool:
    """True where its main thread, or the thread that it waits for, sleeps until an answer comes over the network."""
    doing = status.activity
    if doing is None or status.state != "working" or not status.blocked:
        return False
    return (doing.waits == "storage" and doing.waiting_on.startswith("tcp ")) or _through_a_thread(doing)


def answered(status: RankStatus, waited: float) -> bool:
    """Whether it ran after the others, who have ``waited`` so many seconds, came: something was answered meanwhile."""
    moved = status.motion
    told = moved.unrun > 0.0 or (moved.switches or 0.0) * moved.span >= 1.0
    return told and waited - moved.unrun >= STOOD_STILL_S and asks(status)


def answer_due(status: RankStatus, waited: float) -> float:
    """Seconds that the others may wait at the least; 0 for a rank that asks nobody.

    What threads of its own ask for may take long, as a program asks a service; what the main thread asks for itself,
    as data, comes at once, or does not.
    """
    if answered(status, waited):
        return LONG_WORK_S if (status.motion.switches or 0.0) < SELDOM_PER_S else OWN_WORK_S
    doing = status.activity
    return AN_ANSWER_S if doing is not None and asks(status) and _through_a_thread(doing) else 0.0


def _through_a_thread(doing: Activity) -> bool:
    if doing.thread == "python" and doing.label == "waits for the network":
        return True
    holder = doing.holder  # several threads, of which none is the one
    return holder is not None and holder.waits == "storage" and doing.label.partition(":")[0] in _FEEDS
