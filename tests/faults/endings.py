"""Every way in which hangtop may end: nothing of it is left on a node twelve seconds later."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from tests.faults.fault import Family, Outcome, Play
from tests.faults.running import OnScreen
from tests.faults.scene import SETTLE, Scene

fault = Family("endings")

End = Callable[[Scene, OnScreen], None]
SMI = """\
#!/bin/sh
case "$*" in
  *--help-query-gpu*) printf '"index"\\n"pci.bus_id"\\n"utilization.gpu"\\n"name"\\n';;
  *-lms*) while :; do echo "0, 00000000:07:00.0, 40, H200"; sleep 1; done;;
  *) echo "0, 00000000:07:00.0, 40, H200";;
esac
"""


def _ended(end: End, *, cut: bool = False) -> Play:
    """Watch with programs running on the nodes, end it so, and look what is left; its end is what is waited for."""

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        for node in scene.nodes:
            node.tool("nvidia-smi", SMI)
            scene.undo.callback((node.bin / "nvidia-smi").unlink)
        with OnScreen(scene.path(".htr"), scene.reach) as watch:
            watch.wait_live([node.name for node in scene.nodes])
            time.sleep(SETTLE)
            if cut:
                scene.struck.cut()
                scene.undo.callback(scene.struck.restore)
            began = time.monotonic()
            watch.usage.end()
            end(scene, watch)
            while not watch.ended():
                assert time.monotonic() < began + 20, f"it does not end:\n{watch.terminal.screen()}"
                time.sleep(0.02)
            ended = time.monotonic() - began
            left = scene.left(before)
            gone = time.monotonic() - began
        return Outcome(f"ended in {ended:.1f} s, gone from the nodes in {gone:.1f} s", recovered=gone, left=left)

    return play


def _signal(number: signal.Signals) -> End:
    return lambda _, watch: os.kill(watch.pid, number)


def _press(key: str) -> End:
    return lambda _, watch: watch.terminal.press(key)


def _close(_scene: Scene, watch: OnScreen) -> None:
    watch.terminal.close()


_WAYS: dict[str, End] = {
    "q": _press("q"),
    "Ctrl-C": _press("C-c"),
    "closed terminal": _close,
    "SIGHUP": _signal(signal.SIGHUP),
    "SIGTERM": _signal(signal.SIGTERM),
    "kill -9": _signal(signal.SIGKILL),
}
for _name, _end in _WAYS.items():
    fault(_name, "gone from the nodes")(_ended(_end))
for _name in ("q", "kill -9"):
    fault(f"{_name} while a link is cut", "gone from the nodes")(_ended(_WAYS[_name], cut=True))
