"""Programs of a node that hang, fail or print rubbish; the node side stopped where it stands."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from tests.faults.fault import Family, Outcome
from tests.faults.limits import streams
from tests.faults.scene import Scene, disturbed
from tests.faults.sshd import agents, kill_agent

fault = Family("tools")

SMI = """\
#!/bin/sh
case "$*" in
  *--help-query-gpu*) printf '"index"\\n"pci.bus_id"\\n"utilization.gpu"\\n"name"\\n';;
  *-lms*) while :; do echo "0, 00000000:07:00.0, 40, H200"; sleep 1; done;;
  *) echo "0, 00000000:07:00.0, 40, H200";;
esac
"""
TOOLS = {
    "that hang": "trap '' TERM HUP INT\nexec sleep 1000\n",
    "that fail": "echo 'NVIDIA-SMI has failed because it could not communicate with the driver' >&2\nexit 9\n",
    "that print rubbish": "head -c 3000000 /dev/urandom\n",
    "that print for ever": "yes '0, [N/A], \033[31mX, 1'\n",
    "that complain for ever": "yes '\033]0;t\007 trouble' >&2\n",
}


def _tools(scene: Scene, text: str) -> None:
    for name in ("nvidia-smi", "ibstat", "perfquery", "dmesg"):
        scene.struck.tool(name, f"#!/bin/sh\n{text}")
        scene.undo.callback((scene.struck.bin / name).unlink)
    kill_agent(scene)


for _how, _text in TOOLS.items():
    fault(f"nvidia-smi, ibstat, dmesg {_how}", "samples go on")(
        streams(lambda scene, text=_text: _tools(scene, text), hold=12.0)  # type: ignore[misc]
    )


@fault("the node side stopped for 20 s, then continued", "no sample comes any more")
def paused(scene: Scene) -> Outcome:
    """Its alarm has struck meanwhile: it ends, and another one is started."""
    before = scene.before()
    with scene.watch() as watch:
        name, struck = scene.struck.name, time.time()
        pids = agents(scene)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            scene.undo.callback(_kill, pid)
        change = watch.wait_link(name, "stale", since=struck)
        time.sleep(20.0)
        over = time.time()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        live = watch.wait_link(name, "live", since=change.at, seconds=30.0)
        watch.end()
        return Outcome(
            f"{change.link}: {change.why}", change.at - struck, max(0.0, live.at - over), watch.usage.grown,
            left=scene.left(before), disturbed=disturbed(watch.links(), scene.well, struck),
        )  # fmt: skip


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
