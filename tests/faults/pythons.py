"""Nodes whose Python is too old, of another version, or not there: never is a rank's interpreter run as root."""

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


if _found := interpreter("2.7"):
    fault("Python 2.7 alone", "no Python 3 there")(_strike(_found, "limited", "no Python 3 there"))
if _found := interpreter("3.6"):
    _why = r"its Python is 3\.6 .*: 3\.8 or newer is needed"
    fault("Python 3.6 alone", _why)(_strike(_found, "limited", _why))
for _version in ("3.8", "3.10", "3.13"):
    if _found := interpreter(_version):
        fault(f"Python {_version} alone", "live")(_strike(_found, "live", ""))
fault("no Python", "no Python 3 there")(_strike(None, "limited", "no Python 3 there"))
