"""The README's demo in a terminal: it needs neither nodes nor root."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.support.readme import commands
from tests.support.tmux import Tmux

pytestmark = [pytest.mark.torch, pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")]

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]


def test_the_demo_names_the_culprit_and_shows_its_stack() -> None:
    words = shlex.split(commands()[0].rpartition("&&")[2])[1:]
    with Tmux([*HANGTOP, *words, "--ranks", "2", "--after", "2", "--patience", "5"]) as terminal:
        terminal.wait_for("DEMO")
        screen = terminal.wait_for("HUNG", 150)
        assert "rank 1 on node1 holds up 1 other" in screen
        terminal.press("7")
        terminal.wait_for("rank_stuck_in_data")
        terminal.press("Enter")
        terminal.wait_for("read_shard")
        terminal.press("q")
        terminal.wait_until_ended()
