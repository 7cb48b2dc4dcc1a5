"""A rank whose main thread waits for threads of its own that compute, in libraries that leave Python's lock."""

from __future__ import annotations

from hangtop.diagnosis.busy import is_blocked
from hangtop.diagnosis.stacks.generic import EMPTIED
from hangtop.diagnosis.waits.rank_status import RankStatus

FEEDS = frozenset({"waits for a future", "waits for a thread to end", "waits for a pool of threads"})
"""Waits for what a thread of its own is to bring."""
_HELD_UP = frozenset({"storage", "helper", "time", "peers", "device"})
"""What a thread that is met in such a wait does not compute."""


def empties_a_queue(status: RankStatus) -> bool:
    """Whether its main thread waits for a thread of its own to be through with a queue, and one is at work on it.

    What that sends or writes for each item takes its time, and is not seen. One that waits for a lock, or for more to
    come, brings nothing.
    """
    doing = status.activity
    if doing is None or status.state != "working" or doing.label.partition(":")[0] != EMPTIED:
        return False
    return any(note.role == "python" and note.where and note.waits not in ("lock", "peers") for note in doing.others)


def threads_compute(status: RankStatus) -> bool:
    """Whether the threads beside the main one use CPU while that waits for one of them in code of the job's own.

    Of threads that all wait for one another, or for a service, none does.
    """
    doing = status.activity
    if doing is None or status.state != "working" or doing.label.partition(":")[0] not in FEEDS:
        return False
    used = status.motion.threads
    at_work = any(note.role == "python" and note.where and note.waits not in _HELD_UP for note in doing.others)
    return at_work and used is not None and not is_blocked(used)
