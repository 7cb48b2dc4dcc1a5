"""What a node has run out of, and what it forbids: descriptors, CPU, disks, its own /proc."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable

from tests.faults.fault import Family, Outcome, Play
from tests.faults.scene import MARK, Scene, disturbed
from tests.faults.sshd import kill_agent

fault = Family("limits")


def streams(begin: Callable[[Scene], None], hold: float = 10.0) -> Play:
    """A fault under which the node's samples go on (after a new start of the node side, where it makes one)."""

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        with scene.watch() as watch:
            name, struck = scene.struck.name, time.time()
            begin(scene)
            watch.wait_entry(name, r"^Tick\(", since=time.time() + 0.5)
            time.sleep(max(0.0, struck + hold - time.time()))
            ticked, _ = watch.wait_entry(name, r"^Tick\(", since=struck + hold)
            over = time.time()
            scene.undo.close()
            watch.wait_entry(name, r"^Tick\(", since=over)
            watch.quit()
            return Outcome(
                said="samples go on", recovered=max(0.0, ticked - struck - hold), grown=watch.usage.grown,
                left=scene.left(before), disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip

    return play


def _wrapped(words: str) -> Callable[[Scene], None]:
    """Have the node side start anew behind these words of a shell."""

    def begin(scene: Scene) -> None:
        scene.struck.tool("python3", f'#!/bin/sh\n{words}\nexec {shlex.quote(sys.executable)} "$@"\n')
        scene.undo.callback(kill_agent, scene)
        scene.undo.callback((scene.struck.bin / "python3").unlink)
        kill_agent(scene)

    return begin


def _read_only(scene: Scene) -> None:
    """Have the node side start anew in mounts of its own, in which nothing can be written."""
    mounts = "for at in / /tmp /run /dev/shm; do mount -o remount,bind,ro $at || exit 1; done"
    inside = shlex.quote(f'{mounts} && ! touch /var/tmp/hangtop-wrote-this 2>/dev/null && exec "$@"')
    python = scene.path(".sh")
    python.write_text(f'#!/bin/sh\nexec unshare -m sh -c {inside} sh {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    _wrapped(f'exec {shlex.quote(str(python))} "$@"')(scene)


def _busy(scene: Scene) -> None:
    """2,000 processes that sleep, and some that come and go."""
    sleepers = "for i in $(seq 2000); do sleep 600 & done; while :; do sleep 0.02; true | true; done"
    crowd = scene.struck.spawn(["sh", "-c", sleepers], env={MARK: "1"})
    scene.undo.callback(_end_crowd, scene)
    scene.undo.callback(crowd.kill)
    time.sleep(8.0)


def _end_crowd(scene: Scene) -> None:
    while with_mark := [process for process in scene.struck.processes() if MARK in process.environ()]:
        for process in with_mark:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, 9)
        time.sleep(0.2)


fault("nofile 24", "samples go on")(streams(_wrapped("ulimit -n 24")))
fault("2 s of CPU", "samples go on")(streams(_wrapped("ulimit -t 2"), hold=6.0))
fault("/ read-only", "samples go on")(streams(_read_only))
fault("2,000 processes, and churn", "samples go on")(streams(_busy, hold=20.0))
