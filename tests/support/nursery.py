"""A process that has torch loaded and forks ranks of test jobs: ten times faster than a start of each.

``nursery.py ORDERS`` reads one JSON order a line from the FIFO ``ORDERS``: ``{"script", "env", "stdout", "stderr"}``.
A rank must show its own environment in /proc, where only what was given at start is seen: so the nursery is started
with room for it (HX_ROOM), and each child writes its own block over that.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

# what it is there for; the first is what the constructor of DistributedDataParallel imports, 1.7 s of CPU in each rank
import torch._dynamo
import torch.distributed
import torch.nn.parallel
import torch.utils.data  # noqa: F401


def environment_area() -> tuple[int, int]:
    """Begin and end of the memory that /proc/PID/environ shows."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[47]), int(fields[48])


def take_environment(env: dict[str, str]) -> None:
    """Have ``env`` and nothing else, for this process, its libraries and whoever reads /proc."""
    begin, end = environment_area()
    block = b"".join(f"{name}={value}".encode() + b"\0" for name, value in env.items())
    if len(block) > end - begin:
        raise ValueError(f"{len(block)} bytes of environment do not fit into {end - begin}")
    os.environ.clear()
    ctypes.memmove(begin, block.ljust(end - begin, b"\0"), end - begin)
    os.environ.update(env)


def serve(orders: str) -> dict[str, str]:
    """Fork a child for each order; returns in the child, with its order."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    fifo = Path(orders)
    with fifo.open() as lines, fifo.open("w"):  # the second end keeps the first from seeing an end of file
        for line in lines:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                order: dict[str, dict[str, str]] = json.loads(line)
                take_environment(order["env"])
                return {name: str(value) for name, value in order.items()}
    raise SystemExit


def dress(order: dict[str, str]) -> str:
    """Give a child its files and its program's name; returns the program's source."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        Path(order[name]).parent.mkdir(exist_ok=True)  # it is there, unless this is a container with folders of its own
        file = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    script = Path(order["script"])
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.parent))
    os.chdir(script.parent)
    return script.read_text()


if __name__ == "__main__":
    mine = serve(sys.argv[1])
    source = dress(mine)
    exec(compile(source, mine["script"], "exec"), {"__name__": "__main__", "__file__": mine["script"]})
