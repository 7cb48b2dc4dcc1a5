"""A terminal that goes away ends hangtop; after a stop, one thread reads it; one alarm rings once."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hangtop.diagnosis.finding import Verdict
from tests.support.screens import hung
from tui.terminal import Alarm

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]
DEAF = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"

STOPPED = """
import os, signal, threading
from textual.app import App
from tui.terminal import TerminalDriver

class Small(App):
    async def on_mount(self):
        os.kill(os.getpid(), signal.SIGCONT)  # as after a SIGSTOP
        self.set_timer(0.2, self.look)

    def look(self):
        self.exit([thread.name for thread in threading.enumerate()].count("textual-input"))

print("readers", Small(driver_class=TerminalDriver).run(), "end", flush=True)
"""


@contextmanager
def on_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """A program of Python's on a terminal, and both ends of the terminal; the test closes them."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", *words], stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, env={**os.environ, "TERM": "xterm-256color"},
    ) as process:  # fmt: skip
        try:
            yield process, ours, theirs
        finally:
            process.kill()


def read_until(word: bytes, ours: int) -> bytes:
    seen = b""
    until = time.monotonic() + 60
    while word not in seen:
        assert time.monotonic() < until, seen[-300:]
        seen += os.read(ours, 1 << 16)
    return seen


def test_a_terminal_that_goes_away_without_a_signal_ends_it() -> None:
    with on_a_terminal(DEAF, *HANGTOP) as (process, ours, theirs):
        os.close(theirs)
        read_until(b"Overview", ours)
        os.close(ours)
        assert process.wait(30) == 0


def test_one_thread_reads_the_terminal_after_a_stop() -> None:
    with on_a_terminal(STOPPED) as (process, ours, theirs):
        before = termios.tcgetattr(theirs)
        seen = read_until(b" end", ours)
        assert process.wait(30) == 0
        assert b"readers 1 end" in seen, seen[-300:]
        assert termios.tcgetattr(theirs) == before
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the screen needs a terminal; hangtop triage, analyze and replay --text answer without one"),
        (["--theme", "nosuch"], "no theme nosuch; there are "),
    ],
)
def test_without_a_terminal_or_its_theme_there_is_no_screen(words: list[str], why: str) -> None:
    done = subprocess.run(
        [*HANGTOP, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hangtop: {why}")
    assert not done.stdout


def test_a_hang_rings_once_and_again_after_the_job_was_healthy() -> None:
    alarm, healthy = Alarm(), Verdict("healthy", "all is well")
    told = [None, hung(), hung(), Verdict("waiting", "31 ranks wait"), hung(), healthy, hung(), hung(3)]
    assert [alarm.rings(verdict) for verdict in told] == [False, True, False, False, False, False, True, True]
