"""The keys that findings lead on with are those of the actions that do what their commands do."""

from __future__ import annotations

import re
from pathlib import Path

import hangtop.diagnosis
from hangtop.session.options import REACHING
from tui.actions import ACTIONS
from tui.looks.keys import shown_keys

STEP = re.compile(r"next_step\(\s*\"([^\"]*)\", \"([a-z]+)\"(?:, \"([a-z]+)\")?")
DOES = {
    "stacks": {"stacks.dump", "stacks.native"}, "probe": {"probe.collectives"}, "probe path": {"probe.path"},
    "repair": {"repair"}, "repair orphans": {"repair"}, "repair continue": {"repair"},
}  # fmt: skip
"""What a command does, by action; others have no key."""


def test_every_key_that_is_told_does_what_its_command_does() -> None:
    keys = {key: action.id for action in ACTIONS for key in shown_keys(action.keys)}
    sources = Path(hangtop.diagnosis.__file__).parent.rglob("*.py")
    steps = {match.groups() for path in sources for match in STEP.finditer(path.read_text(encoding="utf-8"))}
    assert len(steps) >= 7
    for key, command, more in steps:
        assert command in REACHING, f"{command} would lack the way to the nodes"
        assert keys.get(key, "") in DOES.get(f"{command} {more}" if more else command, {""})
