"""Runs other programs (nvidia-smi, dmesg, py-spy) such that they neither outlive nor block the node side."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node import watchdog
from collectors.node.files import is_ours, text, write_all
from collectors.node.source import Absent, NotResponding

ERRORS = 1 << 16
"""Last bytes kept of a program's standard error by :func:`run`; earlier ones are dropped."""
OUTPUT = 4 << 20
"""Bytes of standard output after which :func:`run` ends a program."""
LINE = 1 << 16
"""Bytes of a line at most."""
READ = 1 << 20
"""Bytes returned by one read at most (approximately)."""

PLACES = (
    "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/local/nvidia/bin", "/opt/bin",
    "/usr/lib/wsl/lib", "/run/nvidia/driver/usr/bin",
)  # fmt: skip
"""Folders of tools that may be missing from PATH for a command over SSH."""


class ChildEnded(NamedTuple):
    """A program that ended. ``status`` is None if it was killed at its limit of time or output."""

    status: Optional[int]
    stdout: bytes
    stderr: bytes


def find(name: str, more: Sequence[str] = ()) -> Optional[str]:
    """Path of a tool on PATH, in :data:`PLACES` or in ``more`` folders; None if it is not found.

    As root only a tool that no other user can change: PATH may contain a folder of a job's user.
    """
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), *PLACES, *more]:
        path = os.path.join(folder, name)
        if not folder or not os.access(path, os.X_OK) or os.path.isdir(path):
            continue
        if os.geteuid() != 0 or (is_ours(path) and is_ours(os.path.realpath(path))):
            return path
    return None


class Child:
    """A running program whose output is read as it arrives.

    The parent-death signal is bound to the *thread* that starts the program: start it from the source's own thread
    (in ``read``), which lives as long as the node side does.
    """

    def __init__(self, argv: Sequence[str], *, feed: bytes = b"") -> None:
        """``argv[0]`` is a path, or a name for :func:`find`; ``feed`` is its standard input, written at once.

        Raises :class:`Absent` if the program cannot be started.
        """
        program = argv[0] if "/" in argv[0] else find(argv[0])
        if program is None:
            raise Absent("%s: No such file or directory" % argv[0])
        setup = watchdog.child_setup()
        if setup is None:
            raise Absent("this node's Python has no ctypes, so %s could not be ended reliably" % argv[0])
        import subprocess  # half a megabyte and 10 ms: some nodes run no other program

        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                [program, *argv[1:]], stdin=pipe if feed else subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0,
                cwd="/", env=dict(os.environ, LC_ALL="C"), preexec_fn=setup,  # noqa: PLW1509 (prctl alone)
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise Absent("%s: %s" % (argv[0], getattr(error, "strerror", None) or error)) from error
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # the program reports itself why it stopped reading
                write_all(self._process.stdin.fileno(), feed)
            self._process.stdin.close()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout, self._process.stderr
        for stream in (self._out, self._err):
            os.set_blocking(stream.fileno(), False)

    @property
    def status(self) -> Optional[int]:
        """Exit status (negative: signal); None while the program runs."""
        return self._process.poll()

    def ended(self, seconds: float) -> Optional[int]:
        """Wait for its end and return its exit status; None after ``seconds``."""
        import subprocess

        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def read(self) -> Tuple[bytes, bytes]:
        """Standard output and standard error since the last call, about :data:`READ` bytes of each at most."""
        return _taken(self._out.fileno()), _taken(self._err.fileno())

    def wait_output(self, seconds: float) -> bool:
        """Wait for output or the end of output; False after ``seconds``."""
        return bool(select.select([self._out], [], [], seconds)[0])

    def kill(self) -> None:
        """Kill it; its last output can still be read. A process stuck in the kernel dies later."""
        with suppress(PermissionError):  # a program under sudo belongs to root; it ends when its output is closed
            self._process.kill()

    def end(self) -> None:
        """Kill it, close its output, and wait 0.1 s for its end (a process stuck in the kernel takes longer)."""
        self.kill()
        self._out.close()
        self._err.close()
        self.ended(0.1)


def _taken(descriptor: int) -> bytes:
    data = b""
    with suppress(BlockingIOError):
        part = os.read(descriptor, READ)
        while part:
            data += part
            part = os.read(descriptor, READ) if len(data) < READ else b""
    return data


class LineStream:
    """A program that prints lines while it runs, and is restarted after it ends; it never runs twice at once."""

    def __init__(self, name: str, pause: float) -> None:
        """``pause`` is the least time in seconds between two starts of a program that ends by itself."""
        self._name = name
        self._pause = pause
        self._child: Optional[Child] = None
        self._rests = [b"", b""]
        self._begun = self._due = 0.0
        self._heard: Optional[float] = None
        self.killed = False
        """True after :meth:`kill`."""
        self.status: Optional[int] = None
        """Its exit status if the last call of :meth:`lines` found that it had ended."""

    def lines(self, command: Callable[[], Sequence[str]], *, feed: bytes = b"", wait: float = 0.0) -> List[str]:
        """Non-empty lines printed since the last call, on standard output and standard error.

        To start the program, ``command`` gives its arguments, ``feed`` its standard input, and ``wait`` the seconds to
        wait for its first lines. An overlong line is split. Raises :class:`Absent`, as ``command`` may.
        """
        moment, self.status = time.monotonic(), None
        if self._child is None:
            if moment < self._due:
                return []
            self._child = Child(command(), feed=feed)
            self._begun, self._due, self.killed = moment, moment + self._pause, False
            self._heard = self._heard or moment
            self._rests = [b"", b""]
            self._child.wait_output(wait)
        self.status = self._child.status
        found: List[str] = []
        for place, data in enumerate(self._child.read()):
            *whole, rest = (self._rests[place] + data).split(b"\n")
            cut = self.status is not None or len(rest) > LINE
            self._rests[place] = b"" if cut else rest
            found += filter(None, [text(line).strip() for line in [*whole, *([rest] if cut else [])]])
        self._heard = moment if found else self._heard
        if self.status is not None:
            self.end()
        return found

    def check(self, silence: float, give_up: float) -> None:
        """Raise :class:`NotResponding` after ``silence`` seconds without a line; kill it after ``give_up`` seconds."""
        if self._heard is None:
            return
        moment = time.monotonic()
        if moment - max(self._heard, self._begun) > give_up:
            self.kill()
        if moment - self._heard > silence:
            raise NotResponding(self._name, moment - self._heard)

    def kill(self) -> None:
        """Kill it; a new one is started as soon as it is gone."""
        if self._child is not None and not self.killed:
            self._child.kill()
            self.killed = True
            self.soon()

    def soon(self) -> None:
        """Skip the pause before the next start."""
        self._due = 0.0

    def end(self) -> None:
        """End it and forget it."""
        if self._child is not None:
            self._child.end()
            self._child = None


_unended: Dict[Tuple[str, ...], Child] = {}
"""Running programs, and those that were killed but have not ended: a hung driver may hold them in the kernel."""


def run(argv: Sequence[str], timeout: float, limit: int = OUTPUT) -> ChildEnded:
    """Run a program to its end, or kill it after ``timeout`` seconds or ``limit`` bytes of output.

    While an earlier run of the same command has not ended, the command is not run again, and ``status`` is None. Raises
    :class:`Absent` if the program cannot be started.
    """
    words, until = tuple(argv), time.monotonic() + timeout
    if words in _unended and _unended[words].status is None:
        return ChildEnded(None, b"", b"an earlier one has not ended")
    child = _unended[words] = Child(argv)
    out = err = b""
    try:
        while True:
            status, (more, said) = child.status, child.read()
            out, err = out + more, (err + said)[-ERRORS:]
            if status is not None or time.monotonic() > until or len(out) > limit:
                return ChildEnded(status, out, err)
            if not more and child.wait_output(0.05):
                time.sleep(0.002)  # the output is closed; the program is about to end
    finally:
        child.end()
        if child.status is not None:
            _unended.pop(words, None)


def output(name: str, *words: str, seconds: float) -> Tuple[str, str]:
    """Output of a tool, and its error (its last line, or its exit status); the error is empty on success.

    Raises :class:`Absent` if the tool is missing, :class:`NotResponding` if it does not end in time.
    """
    ended = run([name, *words], seconds)
    if ended.status is None:
        raise NotResponding(name, seconds)
    said = [line.strip() for line in text(ended.stderr or ended.stdout).splitlines() if line.strip()]
    why = said[-1][:200] if said else "%s ended with status %d" % (name, ended.status)
    return text(ended.stdout), why if ended.status else ""
