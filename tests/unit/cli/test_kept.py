"""Leaving the screen keeps what was seen, says where in one line, and ``hangtop replay`` finds it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.tmux import Tmux

RUN = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]
LEFT = "left-the-screen"
"""What the terminal says then; no word of the screen's."""
pytestmark = pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "hangtop").glob("*.hangtop"))


def hangtop(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_STATE_HOME": str(folder)}
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=180, check=False, env=env)


def on_screen(folder: Path, *words: str) -> Tmux:
    """The screen over this machine, and what is on the terminal after it."""
    command = f"{shlex.join([*RUN, 'watch', *words])}; echo {LEFT}; exec sleep 60"
    return Tmux(["sh", "-c", command], env={"XDG_STATE_HOME": str(folder)}, size=(200, 30))


def left(terminal: Tmux) -> list[str]:
    """Leave the screen; what is on the terminal then."""
    terminal.press("q")
    return [line for line in terminal.wait_for(LEFT).splitlines() if line.strip() not in ("", LEFT)]


def test_what_was_seen_can_be_replayed_after_the_screen_was_left(tmp_path: Path) -> None:
    with on_screen(tmp_path) as terminal:
        terminal.wait_for("1/1 node")
        time.sleep(1.5)
        said = "".join(left(terminal))
    files = kept(tmp_path)
    assert len(files) == 1
    said = said.replace(" ", "")  # the terminal may break the line anywhere
    assert said.endswith(f"whatwasseeniskept:hangtopreplay{files[0]}")
    judged = hangtop(tmp_path, "replay", "--text")
    assert judged.stderr == ""
    assert judged.stdout
    with Tmux([*RUN, "replay"], env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.wait_for("REPLAY")
        terminal.press("q")
        terminal.wait_until_ended()
    assert kept(tmp_path) == files
