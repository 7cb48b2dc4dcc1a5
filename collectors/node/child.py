"""Other programs that a source runs (nvidia-smi, journalctl): they never outlive the node side, nor block it."""

from __future__ import annotations

import os
import select
import time
from typing import Callable, List, NamedTuple, Optional, Sequence

from collectors.node import watchdog
from collectors.node.forked import Forked
from collectors.node.source import Absent

ERRORS = 1 << 16
"""Bytes of standard error that are kept of a program that is run to its end; the rest is read and let go."""
OUTPUT = 4 << 20
"""Bytes of its standard output, at which it is ended."""


class ChildEnded(NamedTuple):
    """A program that ended. ``status`` is None when it was ended because its time was up."""

    status: Optional[int]
    stdout: bytes
    stderr: bytes


BARE = ("PATH", "LD_LIBRARY_PATH")
"""What a program needs of our environment to start at all; an interpreter may lie apart from its library."""


def _start(argv: Sequence[str], fed: bool, bare: bool, become: Callable[[], None]) -> Forked:
    """Start a program with a parent-death signal. Raises :class:`Absent` when it is not there."""
    setup = watchdog.child_setup()
    if setup is None:
        raise Absent("this node's Python has no ctypes, so %s could not be ended reliably" % argv[0])

    def prepare() -> None:
        become()  # first: a change of user takes the signal away
        setup()

    try:
        environment = {name: value for name, value in os.environ.items() if not bare or name in BARE}
        return Forked(argv, dict(environment, LC_ALL="C"), prepare, fed)
    except OSError as error:
        raise Absent("%s: %s" % (argv[0], error.strerror)) from error


class Child:
    """A running program whose output is taken as it comes.

    The parent-death signal is bound to the *thread* that starts the program: start it from the source's own thread
    (in ``look``), which lives as long as the node side does.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        limit: int = 1 << 20,
        feed: bytes = b"",
        bare: bool = False,
        become: Callable[[], None] = lambda: None,
    ) -> None:
        """``feed`` is its standard input, written before this returns; ``limit`` bounds the bytes of one read.

        ``bare``: it gets nothing of our environment but :data:`BARE`. ``become`` makes it somebody else's before it
        runs (:func:`collectors.node.processes.owner.becoming`).
        """
        self._process = _start(argv, bool(feed), bare, become)
        if feed:
            self._process.write(feed)
        self._limit = limit
        self._out = self._process.stdout
        self._err = self._process.stderr
        os.set_blocking(self._out, False)
        os.set_blocking(self._err, False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def status(self) -> Optional[int]:
        """Exit status (negative: signal); None while it runs."""
        return self._process.poll()

    @property
    def output(self) -> int:
        """Descriptor of its standard output, to select on: readable and nothing to read means that it closed it."""
        return self._out

    def ended(self, seconds: float) -> Optional[int]:
        """Wait for its end and return its exit status; None when the time passed."""
        return self._process.wait(seconds)

    def read(self) -> bytes:
        """Standard output since the last call, at most ``limit`` bytes; empty when there is none (yet, or any more)."""
        return self._take(self._out)

    def read_errors(self) -> bytes:
        """Standard error since the last call."""
        return self._take(self._err)

    def wait_output(self, seconds: float) -> bool:
        """Wait until there is something to read, or it ended; False when the time passed."""
        return bool(select.select([self._out], [], [], seconds)[0])

    def kill(self) -> None:
        """End it without asking, its last output still to be read; one that the kernel holds dies when it lets go."""
        self._process.kill()

    def end(self) -> None:
        """End it without asking; a process that the kernel holds is left behind, dead as soon as it can be."""
        self._process.leave()

    def _take(self, descriptor: int) -> bytes:
        parts: List[bytes] = []
        size = 0
        while size < self._limit:
            try:
                part = os.read(descriptor, 65536)
            except BlockingIOError:
                break
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)


def run(
    argv: Sequence[str],
    timeout: float,
    limit: int = OUTPUT,
    feed: bytes = b"",
    *,
    bare: bool = False,
    become: Callable[[], None] = lambda: None,
) -> ChildEnded:
    """Run a program to its end, or end it when ``timeout`` seconds or ``limit`` bytes of output are over.

    ``feed`` is its standard input; ``bare`` and ``become`` as for :class:`Child`. Raises :class:`Absent` when it is
    not there.
    """
    child = Child(argv, limit=limit, feed=feed, bare=bare, become=become)
    out: List[bytes] = []
    err = b""
    size = 0
    until = time.monotonic() + timeout
    try:
        while True:
            finished = child.status is not None
            part = child.read()
            err = (err + child.read_errors())[-ERRORS:]
            out.append(part)
            size += len(part)
            if finished and not part:
                return ChildEnded(child.status, b"".join(out), err)
            left = until - time.monotonic()
            if left <= 0 or size > limit:
                return ChildEnded(None, b"".join(out), err)
            if not part:
                time.sleep(min(0.02, left))
    finally:
        child.end()
