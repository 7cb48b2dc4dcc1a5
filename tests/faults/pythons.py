"""Nodes whose Python is too old, of another version, or not there."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from tests.faults.fault import Family, Outcome, Play
from tests.faults.scene import Scene, disturbed
from tests.faults.sshd import kill_agent
from tests.support.pythons import interpreter, take_python_away

fault = Family("pythons")


def _strike(path: Path | None, link: str, why: str) -> Play:
    """Leave the struck node this Python, or none, and let hangtop connect anew; the ranks go on with theirs.

    It must be ``link`` with the reason ``why``, and live again once the Pythons are back.
    """

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        with scene.watch() as watch:
            name, struck = scene.struck.name, time.time()
            for covered in take_python_away(scene.struck):
                scene.undo.callback(scene.struck.run, ["umount", covered])
            if path is not None:
                scene.struck.tool("python3", f'#!/bin/sh\nexec {shlex.quote(str(path))} "$@"\n')
                scene.undo.callback((scene.struck.bin / "python3").unlink)
            kill_agent(scene)
            lost = watch.wait_link(name, "lost", since=struck)
            change = watch.wait_link(name, link, why, since=lost.at)
            scene.undo.close()
            over = time.time()
            if link == "live":
                kill_agent(scene)
            watch.wait_link(name, "live", since=over, seconds=90.0)
            recovered, _ = watch.wait_entry(name, r"^Tick\(", since=over)
            watch.end()
            return Outcome(
                said=f"{change.link}: {change.why}", after=change.at - struck, recovered=recovered - over,
                grown=watch.usage.grown, left=scene.left(before),
                disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip

    return play


_WHY = r"no Python 3\.8 or newer on the PATH there"
for _version in ("2.7", "3.6"):
    if _found := interpreter(_version):
        fault(f"Python {_version} alone", _WHY)(_strike(_found, "lost", _WHY))
for _version in ("3.8", "3.10", "3.13"):
    if _found := interpreter(_version):
        fault(f"Python {_version} alone", "live")(_strike(_found, "live", ""))
fault("no Python", _WHY)(_strike(None, "lost", _WHY))
