"""The real node side, as a subprocess of a test, and everything that it printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from collectors.fleet import payload
from collectors.samples.registry import SAMPLES

T = TypeVar("T", bound=NamedTuple)


KINDS = {kind.__name__: kind for kind in SAMPLES}


class NodeAgent:
    """A running node side. Use it in a ``with`` statement: it is killed at the end whatever happened."""

    def __init__(
        self,
        arguments: Mapping[str, object],
        *,
        python: str = sys.executable,
        entry: str = "collectors.node.agent",
        extra: Mapping[str, bytes] | None = None,
        env: Mapping[str, str] | None = None,
        reading: bool = True,
    ) -> None:
        self.samples: list[Any] = []
        self.lines: list[bytes] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            payload.command(python, nice=False),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | dict(env or {}),
        )
        self.send(payload.pack(entry, dict(arguments), extra=extra))
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self._reader.start()

    def __enter__(self) -> NodeAgent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self._reader.ident is not None:
            self._reader.join(10.0)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def send(self, data: bytes) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def control(self, message: NamedTuple) -> None:
        """Send a line of the control line."""
        self.send(json.dumps([type(message).__name__, message]).encode() + b"\n")

    def beat(self) -> None:
        """Send a heartbeat."""
        self.send(b"\n")

    def end_input(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def errors(self) -> str:
        """What it wrote to standard error; waits for its end."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def of(self, kind: type[T]) -> list[T]:
        """Samples of a kind so far."""
        return [sample for sample in list(self.samples) if type(sample) is kind]

    def wait_for(self, wanted: Callable[[NodeAgent], object], seconds: float = 60.0, what: str = "") -> None:
        """Wait until ``wanted(self)`` is true; fails with what came instead."""
        until = time.monotonic() + seconds
        with self._news:
            while not wanted(self):
                left = until - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    assert wanted(self), f"{what or 'nothing of the kind'} came; came: {self.samples[-20:]}"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            kind, *rows = json.loads(line)
            with self._news:
                self.lines.append(line)
                self.samples += [KINDS[kind](*fields) for fields in rows]
                self._news.notify_all()


def children(pid: int) -> list[int]:
    """Processes that any thread of a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile
            found += map(int, task.read_text().split())
    return found


def alive(pid: int) -> bool:
    """True while a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return False


def wait_gone(pids: Sequence[int], seconds: float = 40.0) -> float:
    """Wait until these processes are gone; returns the seconds that it took, fails after ``seconds``."""
    began = time.monotonic()
    while any(alive(pid) for pid in pids):
        assert time.monotonic() - began < seconds, f"still there after {seconds} s: {[p for p in pids if alive(p)]}"
        time.sleep(0.02)
    return time.monotonic() - began
