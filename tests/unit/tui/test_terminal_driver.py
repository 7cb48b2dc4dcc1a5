"""A terminal that goes away without a signal ends hangtop; without one there is no screen."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
import time

import pytest

from tui.running.terminal import LastingFile

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]
DEAF = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"

CONTINUED = """
import os, signal, threading
from textual.app import App
from tui.running.terminal import TerminalDriver

class Small(App):
    def on_mount(self):
        self.call_later(self.look)

    def look(self):
        with self.suspend():
            signal.raise_signal(signal.SIGCONT)
        signal.raise_signal(signal.SIGCONT)
        names = [thread.name for thread in threading.enumerate()]
        self.exit(names.count("textual-input"))

readers = Small(driver_class=TerminalDriver).run()
print("readers", readers, "end", flush=True)
"""
"""Continued while it has given the terminal away, and, as a handler that is late would be called, after that."""


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        if self.tell() > 3:
            raise BrokenPipeError
        return super().write(text)


def test_a_file_that_breaks_takes_all_and_says_so_once() -> None:
    told: list[str] = []
    kept = Broken()
    file = LastingFile(kept, lambda: told.append("gone"))
    assert [file.write("1234"), file.write("5"), file.write("6")] == [4, 0, 0]
    file.flush()
    assert (kept.getvalue(), told, file.lost) == ("1234", ["gone"], True)


def test_a_terminal_that_goes_away_without_a_signal_ends_it() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", DEAF, *HANGTOP, "--no-keep"], stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, env={**os.environ, "TERM": "xterm-256color"},
    ) as process:  # fmt: skip
        try:
            os.close(theirs)
            seen = b""
            until = time.monotonic() + 60
            while b"Overview" not in seen:
                assert time.monotonic() < until, seen[-300:]
                seen += os.read(ours, 1 << 16)
            os.close(ours)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_one_thread_reads_the_terminal_however_often_it_is_continued() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with subprocess.Popen(
        [sys.executable, "-c", CONTINUED], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    ) as process:  # fmt: skip
        try:
            seen = b""
            until = time.monotonic() + 60
            while b" end" not in seen:
                assert time.monotonic() < until, seen[-300:]
                seen += os.read(ours, 1 << 16)
            assert process.wait(30) == 0
            assert b"readers 1 end" in seen, seen[-300:]
            assert termios.tcgetattr(theirs) == before
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the screen needs a terminal; hangtop triage and hangtop analyze answer in text"),
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
