"""Other programs that the node side runs (nvidia-smi, dmesg, py-spy): they never outlive it, nor block it."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node import watchdog
from collectors.node.files import is_ours, text
from collectors.node.source import Absent

ERRORS = 1 << 16
"""Bytes of standard error that are kept of a program that is run to its end; the rest is read and let go."""
OUTPUT = 4 << 20
"""Bytes of its standard output, at which it is ended."""


PLACES = (
    "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/local/nvidia/bin", "/opt/bin",
    "/usr/lib/wsl/lib", "/run/nvidia/driver/usr/bin",
)  # fmt: skip
"""Where tools lie on hosts whose PATH for a command over SSH does not have them."""


class ChildEnded(NamedTuple):
    """A program that ended. ``status`` is None when it was ended because its time was up."""

    status: Optional[int]
    stdout: bytes
    stderr: bytes


def find(name: str, more: Sequence[str] = ()) -> Optional[str]:
    """Path of the tool on PATH, in the usual places or in ``more`` folders; None where there is none.

    As root only a tool that nobody but root can change: the PATH of a login may name a folder of a job's user.
    """
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), *PLACES, *more]:
        path = os.path.join(folder, name)
        if not folder or not os.access(path, os.X_OK) or os.path.isdir(path):
            continue
        if os.geteuid() != 0 or (is_ours(path) and is_ours(os.path.realpath(path))):
            return path
    return None


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
        become: Optional[Callable[[], None]] = None,
    ) -> None:
        """``argv[0]`` is a path, or a name that :func:`find` looks for; ``limit`` bounds the bytes of one read.

        ``feed`` is its standard input, written before this returns; ``become`` is called in it before it runs. Raises
        :class:`Absent` when the program is not there.
        """
        import subprocess  # 1 MB and 10 ms: some nodes run no other program

        setup = watchdog.child_setup(become=become)
        if setup is None:
            raise Absent("this node's Python has no ctypes, so %s could not be ended reliably" % argv[0])
        program = argv[0] if "/" in argv[0] else find(argv[0])
        if program is None:
            raise Absent("%s: No such file or directory" % argv[0])

        try:
            self._process = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env=dict(os.environ, LC_ALL="C"),
                preexec_fn=setup,  # noqa: PLW1509 (prctl and setuid alone)
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Absent("%s: %s" % (argv[0], getattr(error, "strerror", None) or error)) from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it says itself why it did not read on
                view = memoryview(feed)
                while view:
                    view = view[self._process.stdin.write(view) or 0 :]
            self._process.stdin.close()
        self._limit = limit
        self._out = self._process.stdout
        self._err = self._process.stderr
        os.set_blocking(self._out.fileno(), False)
        os.set_blocking(self._err.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def status(self) -> Optional[int]:
        """Exit status (negative: signal); None while it runs."""
        return self._process.poll()

    def ended(self, seconds: float) -> Optional[int]:
        """Wait for its end and return its exit status; None when the time passed."""
        import subprocess

        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def read(self) -> bytes:
        """Standard output since the last call, at most ``limit`` bytes; empty when there is none (yet, or any more)."""
        return self._take(self._out.fileno())

    def read_errors(self) -> bytes:
        """Standard error since the last call."""
        return self._take(self._err.fileno())

    def wait_output(self, seconds: float) -> bool:
        """Wait until there is something to read, or it ended; False when the time passed."""
        return bool(select.select([self._out], [], [], seconds)[0])

    def kill(self) -> None:
        """End it without asking, its last output still to be read; one that the kernel holds dies when it lets go."""
        with suppress(PermissionError):  # one of sudo's is root's: it ends when nobody reads it
            self._process.kill()

    def end(self) -> None:
        """End it without asking, and forget it; one that the kernel holds is waited for no longer than a moment."""
        self.kill()
        self._out.close()
        self._err.close()
        self.ended(0.1)

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


class ToolLines:
    """Whole lines out of chunks of bytes; a line without an end is cut off at ``limit`` bytes."""

    def __init__(self, limit: int = 65536) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes) -> List[str]:
        """Lines that are complete now."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._limit:
            whole.append(self._rest[: self._limit])
            self._rest = b""
        return [text(line).rstrip("\r") for line in whole]

    def close(self) -> List[str]:
        """The last line, if its end was missing."""
        rest, self._rest = self._rest, b""
        return [text(rest)] if rest else []


_unended: Dict[Tuple[str, ...], Child] = {}
"""Programs that were killed and have not ended: a hung driver, or a process that is looked at, holds them."""


def run(argv: Sequence[str], timeout: float, limit: int = OUTPUT) -> ChildEnded:
    """Run a program to its end, or end it when ``timeout`` seconds or ``limit`` bytes of output are over.

    The same words are not run again while an earlier run of them has not ended: that is no answer either. Raises
    :class:`Absent` when the program is not there.
    """
    before = _unended.get(tuple(argv))
    if before is not None and before.status is None:
        return ChildEnded(None, b"", b"an earlier one has not ended")
    until = time.monotonic() + timeout
    child = _unended[tuple(argv)] = Child(argv, limit=min(limit, 1 << 20))
    out = err = b""
    try:
        while True:
            status = child.status
            more = child.read()
            out, err = out + more, (err + child.read_errors())[-ERRORS:]
            if status is not None:
                return ChildEnded(status, out, err)
            if time.monotonic() > until or len(out) > limit:
                return ChildEnded(None, out, err)
            if not more and child.wait_output(0.05):
                time.sleep(0.002)  # it has closed its output, and is about to end
    finally:
        child.end()
        if child.status is not None:
            _unended.pop(tuple(argv), None)
