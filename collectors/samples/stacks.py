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
    """Values of the few arguments that identify peers and groups (``src``, ``dst``, ``group`` …), only from frames of
    torch.distributed, DeepSpeed's comm and Megatron core: other arguments may hold secrets."""


class ThreadStack(NamedTuple):
    """One thread's frames, innermost first."""

    thread_id: int
    os_thread_id: Optional[int]
    name: str
    active: bool
    owns_gil: bool
    frames: List[Frame]


def main_thread(threads: Sequence[ThreadStack], pid: int) -> Optional[ThreadStack]:
    """The main thread among a process's threads; None if it is missing (torn stack, or no frames at all)."""
    named = (thread for thread in threads if thread.os_thread_id == pid or thread.name == "MainThread")
    # threads have no names in a process that never imported threading; only the main thread has a <module> frame
    first = (thread for thread in threads if any(frame.name == "<module>" for frame in thread.frames))
    return next(named, None) or next(first, None)


BESIDE = 16
"""Other threads than the main one that a look reports at most."""


class ThreadWait(NamedTuple):
    """A thread other than the main one that runs or sleeps outside a futex; fields as in :class:`StackDump`."""

    name: str
    syscall: str
    waiting_on: str


RUNS = ", running"
"""Suffix of ``waiting_on`` if the named process has a thread in state R, perhaps at work on the request."""


class StackDump(NamedTuple):
    """One look at one process. A dump with an ``error`` and no frames is evidence too."""

    pid: int
    rank_pid: int
    """Pid of the rank that the process belongs to: its own, or that of a data worker's rank."""
    at: float
    method: str
    """``nonblocking``, ``blocking``, ``native`` or ``none``."""
    state: str
    wchan: str
    syscall: str
    """System call of the main thread, by name, else by number; ``none`` outside a call, empty when unknown."""
    cpu: float
    """CPU seconds of the process so far: two dumps tell busy from blocked."""
    error: str
    """``word: message``; the word is ``denied``, ``stopped``, ``gone``, ``not-python``, ``torn``, ``no-py-spy``,
    ``timeout`` or ``failed``; ``unreachable`` when the node itself did not answer."""
    threads: List[ThreadStack]
    waiting_on: str = ""
    """What the system call waits on, if its descriptor or path shows it: a path, ``pipe``, ``tcp 10.0.0.3:2049``,
    ``/ckpt/model.pt, to write`` for a file that is being opened; ``its clock for 13 s more`` for a sleep."""
    kernel: List[str] = []  # noqa: RUF012 (never written to)
    """Kernel stack, innermost function first; for root only, if there are no frames or the state is D."""
    way_out: str = ""
    """With ``denied`` or ``no-py-spy``: what would make it work on this node."""
    carried: Optional[int] = None
    """Bytes that its open TCP connections have sent and received so far; None when unknown."""
    carrying: Optional[float] = None
    """Bytes per second on its TCP connections during the look; None when unknown, or if the look was too short."""
    unanswered: List[str] = []  # noqa: RUF012 (never written to)
    """Far ends of its TCP connections, as ``10.0.0.7:40001``, that acknowledge none of the data sent to them."""
    addresses: List[str] = []  # noqa: RUF012 (never written to)
    """Local addresses of its connections to other machines; empty unless it is in another network namespace."""
    beside: List[ThreadWait] = []  # noqa: RUF012 (never written to)
    """If the main thread sleeps at a futex: threads that do not, native ones included, at most :data:`BESIDE`."""

    @property
    def main(self) -> Optional[ThreadStack]:
        """The main thread; None if it was not seen."""
        return main_thread(self.threads, self.pid)
