"""The terminal is resized, stopped, dumb or gone: keys are answered after it, and no way to end leaves anything."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.faults.scene import TICK, Scene
from tests.faults.watch import KEYS, TABS, Watch

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

Strike = Callable[[Watch], object]


def storm(watch: Watch) -> None:
    """200 sizes in some seconds, from nothing to a wall of screens."""
    for _ in range(200):
        watch.terminal.resize(random.randint(1, 300), random.randint(1, 100))
    watch.terminal.resize(120, 36)


def press_many(watch: Watch) -> None:
    """2,000 keys, as a cat on the keyboard presses them; none that ends it, or of which a person is asked first."""
    keys = [*"123456789", "Down", "Up", "Left", "Right", "PageDown", "Home", "End", "Tab"]
    for _ in range(40):
        watch.terminal.press(*random.choices(keys, k=50))
    watch.terminal.press("Escape")
    time.sleep(1.0)  # what follows Escape at once is taken for a key with Alt
    watch.terminal.press("1", "0")  # the arrows go through time: back to now
    watch.terminal.wait_for(TABS)


def stop(watch: Watch) -> None:
    """Stopped for 15 s, for which no node hears anything: they end what runs there by themselves."""
    os.kill(watch.pid, signal.SIGSTOP)
    time.sleep(15.0)
    os.kill(watch.pid, signal.SIGCONT)


STRIKES: dict[str, tuple[Strike, tuple[str, ...]]] = {
    "200_sizes": (storm, ()),
    "2000_keys": (press_many, ()),
    "stopped": (stop, ()),
    "dumb": (lambda _: None, ("env", "TERM=dumb")),
    "no_locale": (lambda _: None, ("env", "LC_ALL=C", "LANG=C")),
}


@pytest.mark.parametrize("name", STRIKES)
def test_after_it_keys_are_answered_and_the_job_is_shown(name: str, scene: Scene) -> None:
    strike, inside = STRIKES[name]
    with scene.watched(*inside, undisturbed=() if strike is stop else tuple(scene.names)) as watch:
        strike(watch)
        over = time.time()
        watch.wait_live(scene.names)
        for node in scene.names:
            watch.wait_entry(node, TICK, since=over)
        assert watch.key() < KEYS
        watch.terminal.wait_for("3 ranks", 10.0)


SMI = """\
#!/bin/sh
case "$*" in
  *--help-query-gpu*) printf '"index"\\n"pci.bus_id"\\n"utilization.gpu"\\n"name"\\n';;
  *-lms*) while :; do echo "0, 00000000:07:00.0, 40, H200"; sleep 1; done;;
  *) echo "0, 00000000:07:00.0, 40, H200";;
esac
"""
ENDS: dict[str, Strike] = {
    "q": lambda watch: watch.terminal.press("q"),
    "ctrl_c": lambda watch: watch.terminal.press("C-c"),
    "closed_terminal": lambda watch: watch.terminal.close(),
    "sighup": lambda watch: os.kill(watch.pid, signal.SIGHUP),
    "sigterm": lambda watch: os.kill(watch.pid, signal.SIGTERM),
    "kill_9": lambda watch: os.kill(watch.pid, signal.SIGKILL),
}


@pytest.mark.parametrize(("name", "cut"), [*((name, False) for name in ENDS), ("q", True), ("kill_9", True)])
def test_however_it_ends_nothing_of_it_stays_on_a_node(name: str, cut: bool, scene: Scene) -> None:
    for node in scene.nodes:  # a program that runs for as long as it is read
        scene.undo.callback(node.tool("nvidia-smi", SMI).unlink)
    with scene.watched(quits=False, undisturbed=()) as watch:
        if cut:
            scene.struck.cut()
            scene.undo.callback(scene.struck.restore)
        ENDS[name](watch)
        watch.wait_ended()
    assert watch.ended, "and the scene found nothing of it on any node"
