"""Ends programs of ours that have been stopped (SIGSTOP, a debugger): they do not see that input ends, nor their alarm.

Another channel of the same connection ends the node side by its process id, if that is still a process of this login
that was started as our programs are, and what else hangtop runs over this connection: the children of its sshd that
were started so. Their own children end with them: they carry a parent-death signal.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from collectors.fleet.transport import Process, Transport, TransportError

ENDING = 0.7
"""Seconds that it may take to end by itself."""
KILLING = 4.0
"""Seconds that it may take to end it."""

_KILL = r"""
ours() {
  tr "\000" " " <"/proc/$1/cmdline" | grep -q " -B -u -c exec.* hangtop [0-9]"
}
children() {
  cat "/proc/$1/task/$1/children"
}
[ -O "/proc/$1" ] && ours "$1" && kill -KILL "$1"
above=$PPID
for _ in 1 2 3; do
  read -r name <"/proc/$above/comm" || break
  case "$name" in
    sshd*)
      for pid in $(children "$above"); do
        [ "$pid" != "$$" ] && ours "$pid" && kill -KILL "$pid" $(children "$pid")
      done
      break;;
  esac
  above=$(sed -n "s/^PPid:[^0-9]*//p" "/proc/$above/status")
done
:
"""
"""Shell; its first argument is the process id of the node side.

A login shell may stand between sshd and what it runs, on either way. Only processes are looked at that are ours: the
command line of another may not answer, where it is held by the kernel.
"""


async def end(transport: Transport, process: Process, pid: int) -> None:
    """End what runs as ``process``, whose id on the node is ``pid`` (0: not known), whether or not it listens.

    The connection is about to be closed: who cannot be reached any more ends by itself.
    """
    process.write_eof()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), ENDING)
        return
    if pid > 1:  # smaller ones mean more than one process
        with suppress(TransportError):
            await transport.run(["sh", "-c", _KILL, "sh", str(pid)], timeout=KILLING)
