"""A process forked and executed without the ``subprocess`` module: a third of its cost, as eight ranks at once show.

Like that module it reports a program that is not there where it is started, keeps descriptors of this process to
itself, and leaves no zombie for longer than until the next start.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Callable, Dict, List, NoReturn, Optional, Sequence

_LONGEST_PAUSE = 0.02
"""Seconds between two questions whether it has ended."""

_left: List[int] = []
"""Processes that were ended and had not gone when they were left."""


class Forked:
    """A process whose standard output and error are pipes, its input a pipe or nothing."""

    def __init__(self, argv: Sequence[str], env: Dict[str, str], setup: Callable[[], None], fed: bool) -> None:
        """``setup`` runs in the child before the program. Raises :class:`OSError` when that cannot be started."""
        _reap()
        self._status: Optional[int] = None
        opened: List[int] = []
        try:
            opened += os.pipe() if fed else (os.open(os.devnull, os.O_RDONLY),)
            for _ in range(3):
                opened += os.pipe()
            self.pid = os.fork()
        except OSError:  # no further process, or no further descriptor: those that there are must not be lost as well
            for descriptor in opened:
                os.close(descriptor)
            raise
        *fed_by, self.stdout, out, self.stderr, err, failed, fault = opened
        source, self.stdin = fed_by if fed else (fed_by[0], -1)
        if self.pid == 0:
            _become(argv, env, setup, (source, out, err), fault)
        for mine in (source, out, err, fault):
            os.close(mine)
        number = os.read(failed, 16)  # ends without a word when the program is in its place
        os.close(failed)
        if number:
            os.waitpid(self.pid, 0)
            self.close()
            raise OSError(int(number), os.strerror(int(number)))

    def poll(self) -> Optional[int]:
        """Exit status (negative: signal); None while it runs."""
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                pid, status = self.pid, 0
            if pid:
                self._status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self._status

    def wait(self, seconds: float) -> Optional[int]:
        """Wait for its end and return its exit status; None when the time passed."""
        until = time.monotonic() + seconds
        pause = 0.0005
        while self.poll() is None:
            left = until - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return self._status

    def write(self, data: bytes) -> None:
        """Write all of this to its standard input and end that; one that does not read it to the end says so itself."""
        view = memoryview(data)
        with suppress(BrokenPipeError):
            while view:
                view = view[os.write(self.stdin, view) :]
        os.close(self.stdin)
        self.stdin = -1

    def kill(self) -> None:
        """End it without asking."""
        if self.poll() is None:
            with suppress(ProcessLookupError, PermissionError):  # sudo is root's: it ends when nobody reads it
                os.kill(self.pid, signal.SIGKILL)

    def leave(self) -> None:
        """End it, and close what leads to it; a process that the kernel holds is reaped later."""
        self.kill()
        self.close()
        if self.poll() is None:
            _left.append(self.pid)

    def close(self) -> None:
        """Close the pipes."""
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1


def _become(
    argv: Sequence[str], env: Dict[str, str], setup: Callable[[], None], streams: Sequence[int], fault: int
) -> NoReturn:
    """Turn the forked child into the program; never returns into the parent's code."""
    try:
        setup()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.chdir("/")
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs expect to end by them
            signal.signal(ignored, signal.SIG_DFL)
        os.execvpe(argv[0], list(argv), env)  # noqa: S606 (words, no shell)
    except OSError as error:
        os.write(fault, b"%d" % (error.errno or 0))
    finally:
        os._exit(127)


def _reap() -> None:
    """Take leave of those that have gone meanwhile."""
    for pid in _left[:]:
        try:
            gone = os.waitpid(pid, os.WNOHANG)[0]
        except ChildProcessError:
            gone = pid
        if gone:
            with suppress(ValueError):  # another thread was first
                _left.remove(pid)
