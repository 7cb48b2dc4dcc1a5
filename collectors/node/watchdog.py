"""What ends a program on a node when nobody needs it any more, however that came about.

Three lines, because each fails alone: standard input ends when the channel is closed, but not when the link is cut; a
heartbeat shows a cut link, but a process that is blocked in a write cannot look at it; so each beat re-arms an alarm
whose default action ends the process without its help. Children carry a parent-death signal.
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

_PR_SET_PDEATHSIG = 1


def arm(seconds: int = SILENCE) -> None:
    """End this process in ``seconds``, blocked or not, unless it is armed again before. Main thread only.

    The alarm's action must be the default one, and it must not be held back.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.alarm(seconds)


def leave(status: int = 0) -> NoReturn:
    """End this process at once; its children follow by their parent-death signal."""
    os._exit(status)


def watch(on_data: Optional[Callable[[bytes], None]] = None, seconds: int = SILENCE) -> None:
    """Live as long as heartbeats come: whatever is on standard input is one, and goes on to ``on_data``.

    It is read in a thread of its own; its end is that of this process. Main thread only.
    """
    arm(seconds)

    def hear() -> None:
        while True:
            try:
                data = os.read(0, 8192)
            except OSError:
                leave()
            if not data:
                leave()
            signal.alarm(seconds)
            if on_data is not None:
                on_data(data)

    threading.Thread(target=hear, name="stdin", daemon=True).start()


def program(main: Callable[[Dict[str, Any]], None]) -> Callable[[Dict[str, Any]], None]:
    """Frame of a program that is asked once: it lives as long as heartbeats come, and leaves when it has said all."""

    def entry(arguments: Dict[str, Any]) -> None:
        watch()
        main(arguments)
        say(Answered())
        leave()

    entry.__doc__ = main.__doc__
    return entry


def stay() -> NoReturn:
    """Having answered, stay for what runs in other threads or as children, until this process is ended."""
    say(Answered())
    while True:
        time.sleep(3600.0)


def child_setup(
    number: int = signal.SIGKILL, become: Optional[Callable[[], None]] = None
) -> Optional[Callable[[], None]]:
    """What a child must call between fork and exec so that it dies, of this signal, with the thread that started it.

    ``become`` is called before that: a change of user takes the signal away. None where this Python has no ctypes: then
    no child may be started that does not end by itself.
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
        if os.getppid() != parent:  # it died before the signal was set
            os._exit(1)

    return die_with_parent
