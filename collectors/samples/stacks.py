"""Stacks of processes."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence


class Frame(NamedTuple):
    """One frame of a stack."""

    name: str
    file: str
    line: int
    """0 in native frames."""
    native: bool
    arguments: Dict[str, str] = {}  # noqa: RUF012 (never written to)
    """Values of the few arguments that tell peers and groups apart (``src``, ``dst``, ``group`` …), in torch's own
    frames alone: anything else may hold secrets."""


class ThreadStack(NamedTuple):
    """One thread's frames, innermost first."""

    thread_id: int
    os_thread_id: Optional[int]
    name: str
    active: bool
    owns_gil: bool
    frames: List[Frame]


def main_thread(threads: Sequence[ThreadStack], pid: int) -> Optional[ThreadStack]:
    """The main thread among those of a process; None where it is not there (torn, or no frames at all)."""
    named = (one for one in threads if one.os_thread_id == pid or one.name == "MainThread")
    # a process that never imported threading names none; the program's first line is on its main thread
    first = (one for one in threads if any(frame.name == "<module>" for frame in one.frames))
    return next(named, None) or next(first, None)


BESIDE = 16
"""Threads beside the main one that a look tells of at most."""


class ThreadWait(NamedTuple):
    """A thread beside the main one that runs, or sleeps in a call on a file, a connection, a child or a timer.

    Its call and what that waits on are told as in :class:`StackDump`.
    """

    name: str
    syscall: str
    waiting_on: str


RUNS = ", running"
"""How ``waiting_on`` ends where it names a process of which a thread runs, or is ready to: it may be at work on what it
was asked."""


class StackDump(NamedTuple):
    """One look at one process. No frames and an ``error`` is an answer too: it is evidence."""

    pid: int
    rank_pid: int
    """The rank that the process belongs to; itself, or the parent of a data worker."""
    at: float
    method: str
    """``nonblocking``, ``blocking``, ``native`` or ``none``."""
    state: str
    wchan: str
    syscall: str
    """System call that the main thread is in, by name (by number where the name is not known); ``none`` outside one,
    empty when unknown."""
    cpu: float
    """CPU seconds of the process so far: two dumps tell busy from blocked."""
    error: str
    """``word: what was said``; the word is ``denied``, ``stopped``, ``gone``, ``not-python``, ``torn``, ``no-py-spy``,
    ``timeout`` or ``failed``; ``unreachable`` when the node itself did not answer."""
    threads: List[ThreadStack]
    waiting_on: str = ""
    """What that system call waits on, as far as its descriptor or its path tells: a path, ``pipe``,
    ``tcp 10.0.0.3:2049``, ``/ckpt/model.pt, to write`` for one that is being opened; of a sleep
    ``its clock for 13 s more``."""
    kernel: List[str] = []  # noqa: RUF012 (never written to)
    """Kernel functions that it is in, innermost first; only when there are no frames or it is uninterruptible, and
    only for root."""
    way_out: str = ""
    """With ``denied`` or ``no-py-spy``: what would make it work on this node."""
    carried: Optional[int] = None
    """Bytes that its open TCP connections have sent and received so far; None where that is not told."""
    carrying: Optional[float] = None
    """Bytes per second that they carried while it was looked at; None where that is not told, or took too short."""
    unanswered: List[str] = []  # noqa: RUF012 (never written to)
    """Far ends of its TCP connections, as ``10.0.0.7:40001``, that acknowledge nothing of what is sent to them."""
    addresses: List[str] = []  # noqa: RUF012 (never written to)
    """Its own addresses of its connections to other machines, where its network is a container's, not the node's."""
    beside: List[ThreadWait] = []  # noqa: RUF012 (never written to)
    """Where its main thread sleeps at a futex: its other threads that do not, at most :data:`BESIDE`. Native ones
    have no frames."""

    @property
    def main(self) -> Optional[ThreadStack]:
        """Its main thread, where it was seen."""
        return main_thread(self.threads, self.pid)
