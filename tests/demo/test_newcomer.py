"""A newcomer's way from a hang to the culprit's line, in a real terminal, by the keys that the screen names."""

from __future__ import annotations

import sys

import pytest

from tests.support.newcomer import COMMAND, LINE, go
from tests.support.tmux import Tmux

pytestmark = [pytest.mark.torch, pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")]

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_three_keys_lead_from_the_alarm_to_the_line(size: tuple[int, int]) -> None:
    with Tmux([*HANGTOP, *COMMAND], size=size) as terminal:
        way = go(terminal)
        assert way.keys == ("7", "Enter", "Enter")
        assert LINE.search(way.screen), way.screen
        terminal.wait_for("Esc close")  # the panel below has the line, too: a key would come before the dialog
        terminal.press("Escape")
        terminal.wait_gone("MainThread")
        terminal.press("q")
        terminal.wait_until_ended()
