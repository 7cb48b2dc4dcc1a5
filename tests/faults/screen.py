"""The terminal: resized again and again, dumb, stopped and continued, too small; keys are answered after it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from tests.faults.fault import Family, Outcome, Play
from tests.faults.running import TABS, OnScreen
from tests.faults.scene import SETTLE, Scene, disturbed

fault = Family("screen")

Strike = Callable[[OnScreen], None]
JOB = "3 ranks"
"""What the screen shows of the job while all is well."""


def _works(strike: Strike, inside: tuple[str, ...] = (), *, lost: bool = False) -> Play:
    """Strike the terminal; then keys are answered and the job is shown. ``lost``: nodes may go and come meanwhile."""

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        with OnScreen(scene.path(".htr"), scene.reach, inside=inside) as watch:
            watch.wait_live([node.name for node in scene.nodes])
            time.sleep(SETTLE)
            watch.usage.begin()
            began = time.time()
            strike(watch)
            over = time.time()
            watch.wait_live([node.name for node in scene.nodes])
            for node in scene.nodes:
                ticked, _ = watch.wait_entry(node.name, r"^Tick\(", since=over)
            slowest = watch.key()
            shown = watch.terminal.wait_for(JOB, 10.0)
            watch.quit()
            line = next(line for line in shown.splitlines() if JOB in line)
            return Outcome(
                " ".join(line.split())[:160], recovered=ticked - over, grown=watch.usage.grown, key=slowest,
                left=scene.left(before),
                disturbed=() if lost else disturbed(watch.links(), [node.name for node in scene.nodes], began),
            )  # fmt: skip

    return play


def _storm(watch: OnScreen) -> None:
    """200 sizes in some seconds, from nothing to a wall of screens."""
    for _ in range(200):
        watch.terminal.resize(random.randint(1, 300), random.randint(1, 100))
    watch.terminal.resize(120, 36)


def _keys(watch: OnScreen) -> None:
    """2,000 keys, as a cat on the keyboard presses them; none that ends it, or of which a person is asked first."""
    keys = [*"123456789", "Down", "Up", "Left", "Right", "PageDown", "Home", "End", "Tab"]
    for _ in range(40):
        watch.terminal.press(*random.choices(keys, k=50))
    watch.terminal.press("Escape")
    time.sleep(1.0)  # what follows Escape at once is taken for a key with Alt
    watch.terminal.press("1", "0")  # the arrows go through time: back to now
    watch.terminal.wait_for(TABS)


def _stop(watch: OnScreen) -> None:
    """Stopped for 15 s, for which no node hears anything: they end what runs there by themselves.

    By SIGSTOP, which is what a shell's Ctrl-Z comes to: the kernel ignores SIGTSTP where no shell would continue it.
    """
    os.kill(watch.pid, signal.SIGTSTP)
    time.sleep(1.0)
    os.kill(watch.pid, signal.SIGSTOP)
    time.sleep(15.0)
    os.kill(watch.pid, signal.SIGCONT)


fault("200 sizes of the terminal at once", JOB)(_works(_storm))
fault("2,000 keys at once", JOB)(_works(_keys))
fault("stopped (SIGTSTP, SIGSTOP) for 15 s and continued", JOB)(_works(_stop, lost=True))
fault("TERM=dumb", JOB)(_works(lambda _: None, ("env", "TERM=dumb")))
fault("no locale (LC_ALL=C)", JOB)(_works(lambda _: None, ("env", "LC_ALL=C", "LANG=C")))
