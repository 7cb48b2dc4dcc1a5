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


@pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")
def test_what_was_seen_can_be_replayed_after_the_screen_was_left(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    command = f"{shlex.join([*RUN, 'watch'])}; echo {LEFT}; exec sleep 60"
    with Tmux(["sh", "-c", command], env=state, size=(200, 30)) as terminal:
        terminal.wait_for("1/1 node")
        time.sleep(1.5)
        terminal.press("q")
        said = terminal.wait_for(LEFT)
    (file,) = (tmp_path / "hangtop").glob("*.hangtop")
    assert f"therecordingofthissession:hangtopreplay{file}" in "".join(said.split())  # a terminal breaks lines anywhere
    words = [*RUN, "replay", "--text"]
    judged = subprocess.run(words, capture_output=True, timeout=180, check=False, env={**os.environ, **state})
    assert judged.stderr == b""
    assert judged.stdout
    with Tmux([*RUN, "replay"], env=state) as terminal:
        terminal.wait_for("REPLAY")
        terminal.press("q")
        terminal.wait_until_ended()
