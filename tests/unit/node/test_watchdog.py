"""What ends the node side: its input's end, a killed client, a link that is cut; and its children with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collectors.samples.logs import LogLines
from collectors.samples.stream import Tick
from tests.support.node_agent import NodeAgent, children, wait_gone

SILENCE = 2

# An agent with two sources of the test's own: one floods, one runs a program that ignores whatever it can ignore.
ENTRY = b"""
from collectors.node import agent
from collectors.node.child import Child
from collectors.node.source import Source
from collectors.node.sources import SOURCES
from collectors.samples.logs import LogLines
from collectors.samples.stream import Fault

class Flood(Source):
    def read(self, now):
        for number in range(40):
            yield LogLines("/x", None, now, ["x" * 10000], number)

class Stubborn(Source):
    def read(self, now):
        if not hasattr(self, "child"):
            self.child = Child(["stubborn-smi"])
            yield Fault("child", str(self.child.pid), 1)

def main(arguments):
    SOURCES.clear()
    SOURCES.update({"flood": "special:Flood", "child": "special:Stubborn"})
    agent.main(arguments)
"""

STUBBORN = """\
#!/bin/sh
trap '' HUP INT TERM PIPE ALRM
exec sleep 3600
"""


@pytest.fixture
def stubborn(tmp_path: Path) -> dict[str, str]:
    """Environment in which ``stubborn-smi`` is found."""
    script = tmp_path / "stubborn-smi"
    script.write_text(STUBBORN)
    script.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def arguments(*sources: str) -> dict[str, Any]:
    return {"silence": SILENCE, "sources": list(sources), "settings": [0.05, 0.0, None, [], [], [], False]}


def start(env: Mapping[str, str], *sources: str, reading: bool = True) -> NodeAgent:
    return NodeAgent(arguments(*sources), entry="special", extra={"special.py": ENTRY}, env=env, reading=reading)


def child_of(agent: NodeAgent) -> int:
    """Keep the agent alive until it has started its child; its pid."""
    while not (found := children(agent.process.pid)):
        assert agent.process.poll() is None, "ended before its source had started"
        agent.beat()
        time.sleep(0.05)
    return found[0]


def test_the_end_of_its_input_ends_it_and_its_child_at_once(stubborn: dict[str, str]) -> None:
    with start(stubborn, "child") as agent:
        child = child_of(agent)
        agent.end_input()
        assert agent.process.wait(60) == 0
        wait_gone([child], 60)


def test_silence_ends_it_and_its_child_even_while_it_is_blocked_in_a_write(stubborn: dict[str, str]) -> None:
    with start(stubborn, "flood", "child", reading=False) as agent:
        child = child_of(agent)
        assert agent.process.wait(SILENCE + 60) == -signal.SIGALRM
        wait_gone([child], 60)


def test_a_flood_is_cut_to_the_bytes_of_a_tick_and_counted(stubborn: dict[str, str]) -> None:
    with start(stubborn, "flood") as agent:
        agent.beat()
        agent.wait_for(lambda it: len(it.of(Tick)) > 4)
    ticks, size, largest = 0, 0, 0
    for line in agent.lines:
        size += len(line)
        if line.startswith(b'["Tick"'):
            ticks, largest, size = ticks + 1, max(largest, size), 0
    assert agent.of(LogLines)
    assert largest < (512 << 10) + 20_000
    assert ticks > 4
