"""Somebody who has never seen the screen goes from a hang to the culprit's line, by the keys that the screen names."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.support.tmux import Tmux

COMMAND = ("demo", "--fault", "dataloader", "--after", "4", "--patience", "5")
"""A job that hangs in ``read_shard``, by ``hangtop``."""
LINE = re.compile(r"read_shard +\S*data\.py:\d+")
"""The culprit's line in its full stack."""


class Way(NamedTuple):
    """Keys that were pressed, and the last screen."""

    keys: tuple[str, ...]
    screen: str


def named(screen: str, what: str) -> str:
    """The key that the screen names for something: ``7 Findings``, ``Enter In``. Raises :class:`AssertionError`."""
    found = re.search(rf"(\S+) {re.escape(what)}\b", screen)
    assert found, f"no key for {what!r} on the screen:\n{screen}"
    return found[1]


def go(terminal: Tmux) -> Way:
    """From the alarm on: the key of the findings, then in, and in again. Raises :class:`AssertionError`."""
    screen = terminal.wait_for("HUNG", 150)
    assert "rank 1 on node0 holds up 3 others" in screen
    keys = [named(screen, "Findings")]
    terminal.press(keys[-1])
    for seen in ("who waits for whom", "taken "):
        keys.append(named(terminal.wait_for(seen), "In"))
        terminal.press(keys[-1])
    # Not "MainThread": the panel below has that, too, and a key that comes before the stack is open is for the panel.
    return Way(tuple(keys), terminal.wait_for("Esc close"))
