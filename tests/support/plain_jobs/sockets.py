"""Two ranks that speak over a socket of their own, with nothing but the standard library.

After ten steps rank 1 blocks in its reader and says "struck"; rank 0 waits for what it would send.
"""

from __future__ import annotations

import os
import socket
import sys
import time

RANK = int(os.environ["RANK"])
PLACE = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fetch_shard() -> bytes:
    reader, writer = os.pipe()
    say("struck")
    return os.read(reader, writer)


def met() -> socket.socket:
    if RANK == 0:
        return socket.create_server(PLACE).accept()[0]
    while True:
        try:
            return socket.create_connection(PLACE)
        except OSError:
            time.sleep(0.1)


def exchange(other: socket.socket) -> bytes:
    other.sendall(b"x")
    return other.recv(1)


def train() -> None:
    other = met()
    for step in range(100000):
        say(f"step {step}")
        if step == 10 and RANK == 1:
            fetch_shard()
        exchange(other)
        time.sleep(0.05)


train()
