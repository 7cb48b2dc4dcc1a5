"""Stands for ``python3`` on a node whose owner means harm: ``hostile_node.py NAME`` speaks the stream, badly.

It greets as the node side does, reads what it is sent, and then does what its name says until it is killed. Runs from
this tree, which the test nodes share.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.made import hello, process, pulse, tick


def say(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def line(kind: str, *rows: Any) -> bytes:
    return (json.dumps([kind, *rows]) + "\n").encode()


def tell(*samples: NamedTuple) -> None:
    say(b"".join(line(type(sample).__name__, list(sample)) for sample in samples))


# --- what each does ---------------------------------------------------------------------------------------------------


def ticking(more: Callable[[int], None], pause: float) -> None:
    number = 0
    while True:
        number += 1
        more(number)
        tell(tick(time.time(), number))
        time.sleep(pause)


def random_bytes(_number: int) -> None:
    say(os.urandom(1 << 16))


def endless(_number: int) -> None:
    say(b'["RankProcess",[')
    while True:
        say(b'"a",' * 16_384)


def one_line(_number: int) -> None:
    for _ in range(200):
        say(b"x" * (1 << 20))
    say(b"\n")


def complaints(_number: int) -> None:
    for _ in range(64):
        os.write(2, os.urandom(1 << 16))


def million(number: int) -> None:
    tell(*[process(n, n + 10, started=time.time()) for n in range(number * 20_000, number * 20_000 + 20_000)])


def fast(_number: int) -> None:
    say(line("RankPulse", *[list(pulse(pid, cpu_user=time.time())) for pid in range(1, 65)]) * 400)


HARM: dict[str, tuple[Callable[[int], None], float]] = {
    "random bytes": (random_bytes, 0.2),
    "JSON that is never closed": (endless, 1.0),
    "a line of 200 MB": (one_line, 0.5),
    "standard error without end": (complaints, 0.0),
    "ever more ranks": (million, 0.5),
    "valid samples as fast as it can": (fast, 0.0),
}
"""What each does again and again, and the seconds between."""


def listen() -> None:
    """Take what is sent, and stay when it ends: nobody but the test ends this."""
    while os.read(0, 65536):
        pass


def main() -> None:
    threading.Thread(target=listen, daemon=True).start()
    tell(hello(time.time(), hostname="node2", pid=os.getpid()))
    harm, pause = HARM[sys.argv[1]]
    ticking(harm, pause)


if __name__ == "__main__":
    main()
