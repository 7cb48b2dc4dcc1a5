"""A terminal to press keys in and to read: tmux with a server of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Tmux:
    """One program in one window; a context manager that ends both."""

    def __init__(
        self, command: Sequence[str], *, size: tuple[int, int] = (120, 36), env: Mapping[str, str] | None = None
    ):
        self._socket = f"hangtop-{uuid.uuid4().hex[:12]}"
        self._command = list(command)
        self._size = size
        # what a session keeps when it is left is not put among the tester's own
        state = str(Path(tempfile.gettempdir(), "hangtop-tests-state"))
        self._env = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": state, **(env or {})}
        for size_of_testers in ("COLUMNS", "LINES"):  # readline leaves them there, and they go before the window's own
            self._env.pop(size_of_testers, None)

    @staticmethod
    def missing() -> bool:
        """True where tmux is not installed."""
        return shutil.which("tmux") is None

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *words], capture_output=True, text=True, check=True, env=self._env
        )
        return done.stdout

    def __enter__(self) -> Self:
        width, height = self._size
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), *self._command)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the terminal, whatever still runs in it."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True, check=False)

    def pid(self) -> int:
        """Process id of the program."""
        return int(self._tmux("list-panes", "-F", "#{pane_pid}"))

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        """What is on the screen; empty when the program has ended."""
        try:
            return self._tmux("capture-pane", "-p")
        except subprocess.CalledProcessError:
            return ""

    def wait_for(self, text: str, seconds: float = 90.0) -> str:
        """Wait until a text is on the screen, and give the whole screen. Raises :class:`AssertionError` with it."""
        deadline = time.monotonic() + seconds
        while text not in (screen := self.screen()):
            assert time.monotonic() < deadline, f"no {text!r} on the screen within {seconds:.0f} s:\n{screen}"
            time.sleep(0.1)
        return screen

    def wait_until_ended(self, seconds: float = 60.0) -> None:
        """Wait until the program has left the terminal. Raises :class:`AssertionError`."""
        deadline = time.monotonic() + seconds
        while self.screen():
            assert time.monotonic() < deadline, f"still on the screen:\n{self.screen()}"
            time.sleep(0.1)
