"""A rank whose main thread waits for threads of its own that compute, in libraries that leave Python's lock."""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.generic import EMPTIED
from hangtop.diagnosis.tables.thresholds import SOME_CORES
from hangtop.diagnosis.waits.rank_status import RankStatus

FEEDS = frozenset({"waits for a future", "waits for a thread to end", "waits for a pool of threads"})
"""Waits for what a thread of its own is to bring."""
MAY_BE_FED = frozenset({"waits at a queue", "waits for a lock or an event"})
"""Waits for what a thread of its own may bring, or for nothing that anybody brings."""
A_LOCK = "waits for a lock"
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

    Of threads that all wait for one another, or for a service, none does. At a queue or an event the one thread counts
    that seems to be what it waits for.
    """
    doing = status.activity
    if doing is None or status.state != "working" or not _use_cpu(status):
        return False
    label = doing.label.partition(":")[0]
    if doing.waits == "time":
        return _at_work(doing)  # it looks after each short sleep whether they are through
    if label in MAY_BE_FED:
        return doing.holder is not None and doing.holder.waits in ("nothing", "unknown")
    return label in FEEDS and _at_work(doing)


def library_threads_compute(status: RankStatus) -> bool:
    """Whether threads of which Python knows nothing use CPU, while its main thread does or sleeps in C code.

    So does who calls a tokenizer, or a table's library, that shares its work among threads of its own. Where a thread
    of Python's computes as well, the CPU may be that one's, and a lock what the main thread wants.
    """
    doing = status.activity
    if doing is None or doing.holder is not None or status.state != "working":
        return False
    if not (_sleeps_in_c(doing) or (doing.kind, doing.waits) == ("code", "nothing")):
        return False
    return not _at_work(doing, _HELD_UP | {"lock"}) and _use_cpu(status)


def _sleeps_in_c(doing: Activity) -> bool:
    """Its main thread is asleep in a call of C of which nothing tells what that waits for."""
    return (doing.kind, doing.waits, doing.thread, doing.syscall) == ("code", "unknown", "main", "futex")


def others_compute(status: RankStatus) -> bool:
    """Threads beside the main one do, for which that waits, be they Python's or a library's."""
    return threads_compute(status) or library_threads_compute(status)


def goes_on_beside(status: RankStatus) -> bool:
    """The thread that its main one waits for is in no wait that is known, but for a sleep: it may bring what is due.

    A lock is not brought: it is kept for as long as that thread stays where it is.
    """
    doing = status.activity
    if doing is None or doing.holder is None or doing.label.partition(":")[0] == A_LOCK:
        return False
    return doing.holder.waits in ("nothing", "time", "unknown")


def _at_work(doing: Activity, held_up: frozenset[str] = _HELD_UP) -> bool:
    """A thread of Python's is met in something that is none of these waits."""
    return any(note.role == "python" and note.where and note.waits not in held_up for note in doing.others)


def _use_cpu(status: RankStatus) -> bool:
    """More than threads do that wake now and then: a full node gives who computes a twentieth of a core, or less."""
    used = status.motion.threads
    return used is not None and used >= SOME_CORES
