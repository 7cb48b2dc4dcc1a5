"""Ends a program on a node when its user is gone, for whatever reason.

Three mechanisms, because each alone can fail: standard input ends when the channel is closed, but not when the link is
cut; missing heartbeats show a cut link, but a process blocked in a write cannot notice them; so each heartbeat re-arms
an alarm whose default action ends even a blocked process. Children have a parent-death signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, NoReturn, Optional

from collectors.node.wire import Answered, say

SILENCE = 9
"""Seconds without a heartbeat after which the node side ends."""

LINE = 64 << 20
"""Bytes of one line at most."""

_PR_SET_PDEATHSIG = 1


def arm(seconds: int = SILENCE) -> None:
    """End this process in ``seconds``, blocked or not, unless the alarm is re-armed before. Main thread only.

    Restores SIGALRM's default action and unblocks the signal, since either may be inherited otherwise.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.alarm(seconds)


def leave(status: int = 0) -> NoReturn:
    """End this process at once; its children end by their parent-death signal."""
    os._exit(status)


def watch(on_line: Optional[Callable[[bytes], None]] = None, seconds: int = SILENCE) -> None:
    """Keep this process alive while heartbeats, which are empty lines, or other data come on standard input.

    A separate thread reads standard input, passes each other line to ``on_line``, and ends the process at the end of
    its input. Call from the main thread only.
    """
    arm(seconds)

    def read_input() -> None:
        rest = bytearray()
        while True:
            try:
                data = os.read(0, 8192)
            except OSError:
                leave()
            if not data:
                leave()
            signal.alarm(seconds)
            if on_line is None:
                continue
            rest += data
            if b"\n" in data:  # a lent py-spy is one line of megabytes, which arrives in small pieces
                *lines, rest = rest.split(b"\n")
                for line in filter(None, lines):
                    on_line(bytes(line))
            if len(rest) > LINE:
                leave(1)

    threading.Thread(target=read_input, name="stdin", daemon=True).start()


def program(main: Callable[[Dict[str, Any]], None]) -> Callable[[Dict[str, Any]], None]:
    """Decorate the entry of a one-shot program: it lives while heartbeats come, and ends after its answer."""

    def entry(arguments: Dict[str, Any]) -> None:
        watch()
        main(arguments)
        say(Answered())
        leave()

    entry.__doc__ = main.__doc__
    return entry


def stay() -> NoReturn:
    """Mark the answer as complete, then keep the process alive for its threads and children until it is killed."""
    say(Answered())
    while True:
        time.sleep(3600.0)


def child_setup(
    number: int = signal.SIGKILL, become: Optional[Callable[[], None]] = None
) -> Optional[Callable[[], None]]:
    """Function for a child to call between fork and exec: signal ``number`` then kills it with its starting thread.

    ``become`` is called first, because a change of user clears the parent-death signal. None if this Python has no
    ctypes: no child may then be started that does not end by itself.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    parent = os.getpid()

    def die_with_parent() -> None:
        if become is not None:
            become()
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the signal was set
            os._exit(1)

    return die_with_parent
