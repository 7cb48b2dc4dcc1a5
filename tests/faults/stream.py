"""A node whose owner means harm speaks the stream badly: the screen goes on, and so do the other nodes.

The node side is killed, and what hangtop starts instead is :mod:`tests.faults.hostile_node`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import time

from tests.faults import hostile_node
from tests.faults.fault import Family, Outcome, Play
from tests.faults.running import OnScreen
from tests.faults.scene import MARK, SETTLE, Scene, disturbed
from tests.faults.sshd import kill_agent

fault = Family("stream")

SECONDS = 15.0
"""For which the node is hostile."""
_PROGRAM = hostile_node.__file__


def _end_harm(scene: Scene) -> None:
    with contextlib.suppress(FileNotFoundError):
        (scene.struck.bin / "python3").unlink()
    for process in scene.struck.matching(_PROGRAM):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.host_pid, signal.SIGKILL)


def _played(harm: str, says: str) -> Play:
    def play(scene: Scene) -> Outcome:
        before = scene.before()
        with OnScreen(scene.path(".htr"), scene.reach) as watch:
            watch.wait_live([node.name for node in scene.nodes])
            time.sleep(SETTLE)
            watch.usage.begin()
            name, struck = scene.struck.name, time.time()
            # The nodes share this machine's processors, which a hostile node cannot take from others.
            fake = shlex.join([sys.executable, _PROGRAM, harm])
            scene.undo.callback(_end_harm, scene)
            scene.struck.tool("python3", f"#!/bin/sh\n{MARK}=1 exec nice -n 19 {fake}\n")
            kill_agent(scene)
            slowest = 0.0
            while time.time() < struck + SECONDS:
                time.sleep(1.0)
                slowest = max(slowest, watch.key())
            over = time.time()
            _end_harm(scene)
            watch.wait_link(name, "live", since=over)
            ticked, _ = watch.wait_entry(name, r"^Tick\(", since=over)
            watch.quit()
            told = list(watch.found(name, says, struck)) or list(watch.found(name, LIVE, struck))
            links = [f"{change.link}: {change.why}" for change in watch.links(name) if change.at >= struck]
            return Outcome(
                said=_part(told[0][1], f"{says}|{LIVE}") if told else "; ".join(links)[:400],
                recovered=ticked - over, grown=watch.usage.grown, key=slowest,
                left=scene.left(before), disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip

    return play


def _part(said: str, pattern: str) -> str:
    found = re.search(pattern, said)
    assert found is not None
    return said[max(0, found.start() - 40) : found.end() + 60]


LIVE = "link='live'"
NO_SAMPLE = "(no sample|no samples|unknown kind|without an end|malformed|cut off|depth|flood)"
SAYS = {
    "ticks without end": "it sends more than",
    "standard error without end": "live",
    "a clock that jumps": "live",
    "extreme values of the right types": "Expected `",
    "ever more ranks": "(it names ranks beyond|it sends more than)",
    "ever more logs": "(it names log files beyond|it sends more than)",
    "valid samples as fast as it can": "it sends more than",
    "escape codes in every text": "live",
}
"""What is said of each; of all others that they are no samples."""

for _harm in hostile_node.HARM:
    _says = SAYS.get(_harm, NO_SAMPLE)
    # On a machine that is busy the harm may be too slow to be over any limit: then the node is live, and that is right.
    fault(_harm, f"({_says}|{LIVE})" if "sends more" in _says else _says)(_played(_harm, _says))
