"""Ctrl-Z gives the terminal to the shell as it was; ``fg`` brings the whole screen back, and it lives."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.support.tmux import Tmux

WATCH = shlex.join(
    [sys.executable, "-c", "from hangtop.cli.main import main; main()", "watch", "--job", "HANGTOP_TEST=nobody"]
)
"""Without the ranks of this machine: while another program's job hangs there, ``q`` asks once before it leaves."""
on_terminal = pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")


def settings(terminal: Tmux, file: Path) -> str:
    """What stty says of the terminal, asked of the shell that has it."""
    terminal.press("clear", "Enter")
    terminal.press(f"stty -a >{shlex.quote(str(file))}; echo {file.name}-$((40 + 2))", "Enter")
    terminal.wait_for(f"{file.name}-42")
    return file.read_text()


@on_terminal
@pytest.mark.parametrize("under", ["the panel", "a dialog"])
def test_the_terminal_is_the_shells_until_fg(under: str, tmp_path: Path) -> None:
    with Tmux(["sh", "-i"], env={"ENV": "", "PS1": "$ "}) as terminal:
        before = settings(terminal, tmp_path / "before")
        terminal.press(WATCH, "Enter")
        terminal.wait_for("1/1 node")
        if under == "a dialog":
            terminal.press("?")
            terminal.wait_for("Esc close")
        terminal.press("C-z")
        terminal.wait_for("Stopped")
        assert settings(terminal, tmp_path / "stopped") == before
        terminal.resize(130, 40)
        terminal.press("fg", "Enter")
        if under == "a dialog":
            terminal.wait_for("Esc close")
            terminal.press("Escape")
            terminal.wait_gone("Esc close")
        shown = terminal.wait_for("9 Groups")
        assert "stopped-42" not in shown
        terminal.press("6")
        terminal.wait_for("● live")
        terminal.press("q")
        terminal.wait_for("hangtop replay")
        assert (
            settings(terminal, tmp_path / "after").replace("columns 130", "columns 120").replace("rows 40", "rows 36")
            == before
        )
