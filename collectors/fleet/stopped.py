"""Ends a node side that has been stopped (SIGSTOP, a debugger): it does not see that its input ends, nor its alarm.

Another channel of the same connection ends it by its process id, if that is still a process of this login that was
started as our programs are. Its children end with it: they carry a parent-death signal.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from collectors.fleet.transport import Process, Transport, TransportError

ENDING = 0.7
"""Seconds that it may take to end by itself."""
KILLING = 4.0
"""Seconds that it may take to end it."""

_KILL = (
    '[ -O "/proc/$1" ] && tr "\\\\000" " " <"/proc/$1/cmdline" | grep -q " -I -S -B -u -c exec.* hangtop " && '
    'kill -KILL "$1"'
)
"""Shell; its first argument is the process id."""


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
