"""The wake set of a rank for which others wait, and whether the wake set makes progress.

The *wake set* of a rank is everything that can unblock the rank: all threads of its process, the processes that it
started, and its connections. While the wake set makes progress (CPU, bytes, its own GPU), the rank works, for however
long. Without progress, the cause of the block decides: a lock, pipe, child or peer lies inside the job, and only the
job can end the wait; a remote service, timer, storage or file lock of another process lies outside, and may end the
wait.

Example: rank 2 sleeps in ``thread.join()`` while its upload thread sends 40 kB/s → works. The upload thread blocks in
``recv`` and no byte moves → blocked outside. All threads sleep in ``futex`` → blocked inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from statistics import median_low
from typing import NamedTuple

from collectors.samples.ranks import Helper
from collectors.samples.stacks import ThreadWait
from hangtop.diagnosis.phrasing import duration, listed, size
from hangtop.diagnosis.stacks.kernel import FILE_LOCKS
from hangtop.diagnosis.stacks.states import Activity, Meaning, target_of
from hangtop.diagnosis.tables.thresholds import IDLE_CORES, LATE_SAMPLES
from hangtop.diagnosis.tables.wchan import call_at, sleep_at
from hangtop.diagnosis.waits.rank_status import RankStatus

SOME_CORES = 0.015
"""Ours: three times what the threads of a rank that waits use together."""
HELPERS_KNOWN_S = 5.0
"""Seconds of watching a rank after which its child processes are known: a node looks for new ones every tick, and
compilers live for a second or two."""
LITTLE_BYTES_PER_S = 4096.0
"""Ours: log lines, heartbeats and keep-alives of a rank stay below; even a slow copy of a file is above."""
ENOUGH = 32
"""Ours: most waiters whose figures are read, because each working rank is compared with all of them."""
STOPPED, ENDED = ("T", "t"), ("Z", "X")
"""State letters of the kernel: halted; ended and not yet reaped."""
_AT_A_PIPE = frozenset({"read", "write", "openat"})
"""Calls for which :func:`call_at` knows only the kernel functions of pipes."""
IN_LOOPS = frozenset(
    {"select", "pselect6", "poll", "ppoll", "epoll_wait", "epoll_pwait", "nanosleep", "clock_nanosleep", "none"}
)
"""Calls in the loops of libraries, which wait for one of several files or for the next poll; ``none``: the thread runs,
and its CPU use counts instead."""


class WakeProgress(Enum):
    """Whether a wake set makes progress, and if not, whether it is blocked inside or outside the job."""

    WORKS = "works"
    INSIDE = "blocked inside the job"
    OUTSIDE = "blocked outside the job"
    UNKNOWN = "not measured for long enough"


class WakeSet(NamedTuple):
    """Measurement of one rank's wake set over the samples."""

    progress: WakeProgress
    figures: str = ""
    """For people: ``1.0 core busy``, ``reads 3.2 MB/s``, ``blocked on pipe``, ``time.sleep, 277.8 h left``."""


def wake_set_of(status: RankStatus, waiters: Sequence[RankStatus]) -> WakeSet:
    """Measure the wake set of a rank, relative to the waiting ranks.

    Polling threads and watchdogs of NCCL and torch use CPU in every rank, and every rank writes when recorder dumps are
    requested. So for reads, writes and threads other than the main thread, only the excess over the median waiter
    counts.
    """
    waiters = waiters[:: len(waiters) // ENOUGH + 1]
    doing = status.activity
    if status.load == "computing":
        return WakeSet(WakeProgress.WORKS, "its GPU computes")
    if status.state == "on_gpu":
        return WakeSet(WakeProgress.INSIDE, "waits for its own GPU")
    if status.state == "uninterruptible":
        wchan = status.motion.wchan
        progress = WakeProgress.OUTSIDE if sleep_at(wchan).ordinary else WakeProgress.INSIDE  # a large fsync ends
        return WakeSet(progress, f"state D{f' in {wchan}' if wchan else ''}")
    if status.state not in ("working", "leaving"):
        return WakeSet(WakeProgress.INSIDE)
    if works := _work(status, waiters):
        return WakeSet(WakeProgress.WORKS, works)
    if doing is None or doing.error:
        return WakeSet(WakeProgress.UNKNOWN, "" if doing is None else doing.label)
    thread, on = _thread_at_work(doing, waiters), _blocked_on(doing)
    if thread is not None:
        text = f"its thread {thread.name} is in {thread.syscall}"
        text += f" on {thread.waiting_on}" if thread.waiting_on else ""
        on = on if text in on else text
    pulses = status.process.pulses if status.process is not None else ()
    if len(status.readings) < LATE_SAMPLES or (pulses and not status.motion.span):
        return WakeSet(WakeProgress.UNKNOWN, on)
    children = tuple(status.process.helpers.values()) if status.process is not None else ()
    if doing.waits == "helper" and not children and len(pulses) > 1 and pulses[-1].at - pulses[0].at < HELPERS_KNOWN_S:
        return WakeSet(WakeProgress.UNKNOWN, on)  # a node finds new processes every few seconds
    # a thread at a pipe waits inside the job, unless a child process at the far end waits for something outside
    thread_inside = thread is None or (target_of(thread.waiting_on).pipe and all(map(_child_inside, children)))
    inside = thread_inside and _blocked_inside(status, doing, children)
    return WakeSet(WakeProgress.INSIDE if inside else WakeProgress.OUTSIDE, on)


def _work(status: RankStatus, waiters: Sequence[RankStatus]) -> str:
    """Figures of the first part of a wake set that makes progress, for people; empty without progress."""
    moved, doing, others = status.motion, status.activity, [waiter.motion for waiter in waiters]
    beside = _beyond(moved.threads, (other.threads for other in others))
    main = max(0.0, (moved.cpu or 0.0) - (moved.threads or 0.0))
    if main > IDLE_CORES or moved.wants_cpu or (moved.cpu is not None and moved.state == "R"):  # runnable without a CPU
        return _cores(main + beside)
    if beside > SOME_CORES:
        return f"{_cores(beside)} in its other threads"
    if moved.helped:
        return f"{_cores(moved.helpers_cpu or 0.0)} in processes that it started"
    moving = (
        ("reads", _beyond(moved.read, (other.read for other in others))),
        ("writes", _beyond(moved.written, (other.written for other in others))),
        ("its connections carry", doing.carried if doing is not None else None),
        ("processes that it started copy", moved.helpers_bytes),
    )
    for verb, rate in moving:
        if (rate or 0.0) > LITTLE_BYTES_PER_S:
            return f"{verb} {size(rate or 0.0)}/s"
    return "the process that it waits for runs on its node" if doing is not None and doing.target.runs else ""


def _beyond(figure: float | None, others: Iterable[float | None]) -> float:
    """Excess of a figure over the median waiter's, at least 0."""
    known = [other for other in others if other is not None]
    return max(0.0, (figure or 0.0) - (median_low(known) if known else 0.0))


def _cores(cores: float) -> str:
    return f"{cores:.1f} {'core' if cores <= 1.05 else 'cores'} busy" if cores >= 0.1 else f"{cores:.2f} cores busy"


def _blocked_inside(status: RankStatus, doing: Activity, children: Sequence[Helper]) -> bool:
    """Whether only the job itself can unblock the main thread of this rank.

    A pipe and a child lie inside, unless a child of the rank is blocked on something outside.
    """
    if doing.meaning is Meaning.PROMPT:
        return True  # a breakpoint that was left in the program
    if doing.syscall in FILE_LOCKS or doing.meaning is Meaning.LOCK_FILE or doing.waits in ("time", "nothing"):
        return False
    if doing.waits not in ("helper", "storage"):
        return True
    children = [child for child in children if child.pid == doing.helper_pid] or children
    at_a_pipe = doing.target.pipe or call_at(status.motion.wchan) in _AT_A_PIPE
    return (doing.waits == "helper" or at_a_pipe) and all(map(_child_inside, children))


def _child_inside(child: Helper) -> bool:
    """Whether a child is halted or has ended, or sleeps in the kernel for something that lies inside the job."""
    call = call_at(child.wchan)
    return child.state in (*ENDED, *STOPPED) or call in _AT_A_PIPE or call in ("futex", "wait4")


def _thread_at_work(doing: Activity, waiters: Sequence[RankStatus]) -> ThreadWait | None:
    """The thread that may unblock the main thread when its system call returns; None without one.

    A thread in a call in which most waiters have a thread, too (a heartbeat, a logger), does not count.
    """
    if doing.syscall != "futex":
        return None
    usual = Counter(call for other in waiters for last in other.readings[-1:] for call in set(map(_call, last.beside)))
    theirs = (thread for thread in doing.beside if usual[_call(thread)] * 2 <= len(waiters))
    return next((thread for thread in theirs if thread.syscall not in IN_LOOPS), None)


def _call(thread: ThreadWait) -> tuple[str, str]:
    """The system call of a thread, and the class of its descriptor: ``recvfrom``, ``tcp``."""
    return thread.syscall, "file" if thread.waiting_on.startswith("/") else thread.waiting_on.partition(" ")[0]


def _blocked_on(doing: Activity) -> str:
    """Text on what blocks a rank, from its system call or its frames."""
    if (left := doing.target.seconds) is not None:
        return f"time.sleep, {duration(left)} left"
    if doing.waits == "time" or doing.meaning in (Meaning.PROMPT, Meaning.LOCK_FILE):
        return doing.label
    if doing.waiting_on:
        return f"blocked on {doing.waiting_on}"
    if doing.syscall not in ("", "none", "running", "futex"):
        return f"blocked in {doing.syscall}"
    threads = [f"its thread {thread.name} is at {thread.where}" for thread in doing.others]
    beside = f"; {listed(threads, 2)}" if doing.waits in ("lock", "unknown") and threads else ""
    return "" if doing.meaning is Meaning.CODE else doing.label + beside
