"""Time from the shell to the first frame, and to live nodes, compared with a bare Textual application.

The end of a measurement is a text on the screen, such as "64/64 nodes" in the first line, over SSH connections to
simulated nodes. Byte code is cached, as for an installed package, even if the environment forbids writing it.
Run: ``python -m benchmarks.first_frame``.
"""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import NamedTuple

from benchmarks.report import FigureRow, report
from benchmarks.simulated_nodes import simulated_nodes

ROUNDS = 9
LONGEST = 20.0
"""Seconds after which a start counts as failed."""

BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    def compose(self):
        yield Static("bare-application")

Bare().run()
"""

HANGTOP = str(Path(sys.executable).with_name("hangtop"))
BARE_FLOOR = "bare Textual 0.15 to 0.21 s"


class Start(NamedTuple):
    """A command, the text that ends its measurement, and the budget in seconds."""

    command: list[str]
    words: bytes
    budget: float | None
    floor: str


def starts(ssh_config: Path) -> dict[str, Start]:
    """All starts, by name; simulated nodes are in the configuration."""
    to_nodes = [HANGTOP, "-F", str(ssh_config)]
    return {
        "bare Textual application": Start([sys.executable, "-c", BARE], b"bare-application", None, ""),
        "hangtop, this machine": Start([HANGTOP], b"Overview", 0.35, BARE_FLOOR),
        "hangtop, 64 nodes": Start([HANGTOP, "bench-[001-064].invalid"], b"Overview", 0.35, BARE_FLOOR),
        "hangtop, one node, seen live": Start([*to_nodes, "sim0000"], b"1/1 node", 0.6, "0.28 s"),
        "hangtop, 64 nodes, all seen live": Start([*to_nodes, "sim[0000-0063]"], b"64/64 nodes", 2.0, "1.2 s"),
    }


def environment(cache: str) -> dict[str, str]:
    """This process's environment, with a true-colour terminal and a byte code cache in ``cache``."""
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPYCACHEPREFIX": cache}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | terminal


def until(command: Sequence[str], words: bytes, environ: Mapping[str, str]) -> float:
    """Seconds from the start of a command in a terminal of 120 × 40 cells until it drew ``words``."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
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
    """Measure in turn, so that load affects all starts equally; the first round fills the cache."""
    with simulated_nodes(64) as simulated, tempfile.TemporaryDirectory() as cache:
        environ = environment(cache)
        wanted = starts(simulated.ssh_config)
        times: dict[str, list[float]] = {name: [] for name in wanted}
        for _ in range(ROUNDS + 1):
            for name, start in wanted.items():
                times[name].append(until(start.command, start.words, environ))
    report(
        "first_frame",
        [FigureRow(name, "s", tuple(times[name][1:]), of.budget, of.floor) for name, of in wanted.items()],
    )


if __name__ == "__main__":
    main()
