"""A rank that waits for an answer over the network: a service may take a while for each, and give one after another."""

from __future__ import annotations

from itertools import islice

from collectors.samples.stacks import RUNS
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.generic import EVENT_LOOP, NETWORK
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, OWN_WORK_S, STOOD_STILL_S
from hangtop.diagnosis.waits.own_threads import FEEDS, MAY_BE_FED, empties_a_queue
from hangtop.diagnosis.waits.process_motion import wakes
from hangtop.diagnosis.waits.rank_status import RankStatus

AN_ANSWER_S = 10.0
"""Ours: a judge, a tokenizer or a store that is a service may take so long for one answer."""
SELDOM_PER_S = 1.0
"""Ours: who wakes oftener than once a second gets a few bytes each time, or only looks whether an answer came."""
DRIP_BYTES_PER_S = 1024.0
"""Ours: what keeps a store and a watchdog alive stays below, an upload over the slowest of paths above."""
LAST = 12
"""Looks at a process that are gone through."""
_MAY_BRING = ("storage", "time", "unknown")
"""What a thread waits in that may bring what the main one waits for, each after a while."""
PER_ITEM = 3
"""Times that the main thread wakes, at the most, for each that it takes out of a queue."""
_CARRIES = ("tcp ", "socket", "pipe")


def asks(status: RankStatus) -> bool:
    """True where its main thread, or the thread that it waits for, sleeps until a connection or a pipe brings more.

    So does one that fills the queue at which the main thread waits. An event loop sleeps until any of its own
    does, or a timer.
    """
    doing = status.activity
    if doing is None or status.state != "working" or not status.blocked:
        return False
    own = doing.waits == "storage" and doing.waiting_on.startswith(_CARRIES)
    return own or doing.label == EVENT_LOOP or _through_a_thread(doing) or _fed_from_afar(doing)


def asks_afar(status: RankStatus) -> bool:
    """The same through a socket, as far as one knows: who answers is none of the job's, and may be at work on it."""
    doing = status.activity
    if doing is None or not asks(status):
        return False
    return doing.label in (NETWORK, EVENT_LOOP) or doing.waiting_on.startswith(("tcp ", "socket"))


def answered(status: RankStatus, waited: float) -> bool:
    """Whether it ran after the others, who have ``waited`` so many seconds, came: something was answered meanwhile."""
    return waited - status.motion.unrun >= STOOD_STILL_S and asks(status) and _ran(status)


def _ran(status: RankStatus) -> bool:
    """Whether its main thread ran at all, as far as the kernel tells."""
    return status.motion.unrun > 0.0 or _has_slept(status) or wakes(status.motion)


def _has_slept(status: RankStatus) -> bool:
    """Whether one of its last looks told since when it slept: where the newest does not, it runs just now."""
    looks = status.process.looks if status.process is not None else ()
    return any(look.value.idle_since is not None for look in islice(reversed(looks), LAST))


def serves_just_now(status: RankStatus) -> bool:
    """Whether most of the last looks met who is to answer it, a process of its node, at work.

    So is an engine, or a simulator, that the job was started beside: what it was asked may take it long.
    """
    last = status.readings[-LAST:]
    return bool(last) and 2 * sum(look.waiting_on.endswith(RUNS) for look in last) > len(last)


def answer_due(status: RankStatus, waited: float) -> float:
    """Seconds that the others may wait at the least; 0 for a rank that asks nobody.

    What threads of its own ask for may take long, as a program asks a service; what the main thread asks for itself,
    as data, comes at once, or does not.
    """
    if empties_a_queue(status):
        return OWN_WORK_S
    if asks_afar(status) and (serves_just_now(status) or _drips(status)):
        return LONG_WORK_S
    if answered(status, waited):
        return LONG_WORK_S if (status.motion.switches or 0.0) < SELDOM_PER_S * _asking(status) else OWN_WORK_S
    doing = status.activity
    if doing is None or not asks(status):
        return 0.0
    came = _fed_from_afar(doing) and status.motion.unrun < waited and _ran(status)
    return AN_ANSWER_S if came or _through_a_thread(doing) else 0.0


def _drips(status: RankStatus) -> bool:
    """Whether its connections carried a little between looks, and a thread of its own is met in one of them."""
    doing = status.activity
    sends = doing is not None and doing.thread == "python" and doing.label == NETWORK
    return sends and doing is not None and (doing.carried or 0.0) > DRIP_BYTES_PER_S


def _asking(status: RankStatus) -> int:
    """How many of its threads wait for answers of their own, each of which wakes the main one; one at the least."""
    others = status.activity.others if status.activity is not None else ()
    if status.activity is not None and _fed_from_afar(status.activity):
        return PER_ITEM
    return max(1, sum(note.role == "python" and note.waits == "storage" for note in others))


def _through_a_thread(doing: Activity) -> bool:
    if doing.thread == "python" and (doing.label == NETWORK or (doing.waits == "unknown" and doing.moving)):
        return True  # the other threads of its pool are through, or not all looks met this one
    holder = doing.holder  # several threads, of which none is the one; what each waits for is not always told
    notes = doing.others if holder is None else (holder,)
    brings = any(note.role == "python" and note.where and note.waits in _MAY_BRING for note in notes)
    return brings and doing.label.partition(":")[0] in FEEDS


def _fed_from_afar(doing: Activity) -> bool:
    """It waits at a queue that a thread of its own fills with what that reads, in pieces: each wakes the main one."""
    holder = doing.holder
    return holder is not None and holder.waits in ("storage", "unknown") and doing.label.partition(":")[0] in MAY_BE_FED
