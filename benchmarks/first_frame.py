"""From the shell to the first frame: `hangtop` beside a bare Textual application, in a terminal of our own.

Run: ``python -m benchmarks.first_frame``.
"""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from benchmarks.report import Row, report

ROUNDS = 9
LONGEST = 20.0
"""Seconds after which a start has failed."""

BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    def compose(self):
        yield Static("bare-application")

Bare().run()
"""

HANGTOP = str(Path(sys.executable).with_name("hangtop"))
COMMANDS: dict[str, tuple[list[str], bytes]] = {
    "bare Textual application": ([sys.executable, "-c", BARE], b"bare-application"),
    "hangtop, this machine": ([HANGTOP], b"Overview"),
    "hangtop, 64 nodes": ([HANGTOP, "bench-[001-064].invalid"], b"Overview"),
}
"""What is started, and the words that the first frame has."""


def until(command: Sequence[str], words: bytes) -> float:
    """Seconds from starting a command in a terminal of 120 × 40 until it has drawn these words."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environ = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    began = time.perf_counter()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True)
    os.close(theirs)
    seen = b""
    try:
        while words not in seen:
            ready, _, _ = select.select([ours], [], [], LONGEST - (time.perf_counter() - began))
            if not ready:
                raise TimeoutError(f"{command[:4]} drew no {words!r}: {seen[-300:]!r}")
            seen += os.read(ours, 65_536)
        return time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def main() -> None:
    """Measure, turn about, so that the machine's mood hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS + 1):
        for name, (command, words) in COMMANDS.items():
            times[name].append(until(command, words))
    rows = [
        Row(
            name, "s", tuple(measured[1:]), None if name.startswith("bare") else 0.35,
            "" if name.startswith("bare") else "bare Textual 0.15 to 0.21 s",
        )
        for name, measured in times.items()
    ]  # fmt: skip
    report("first_frame", rows)


if __name__ == "__main__":
    main()
