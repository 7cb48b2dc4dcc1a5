"""A parameter server over plain sockets, with NumPy alone: rank 0 hands out weights and takes gradients."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import time
from typing import Any

import mishaps
import numpy as np

RANK, WORLD, PORT = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "PORT"))
SIZE = struct.Struct("!I")


def send(peer: socket.socket, what: Any) -> None:
    """Send one object."""
    data = pickle.dumps(what)
    peer.sendall(SIZE.pack(len(data)) + data)


def receive(peer: socket.socket) -> Any:
    """Receive one object."""
    return pickle.loads(exactly(peer, SIZE.unpack(exactly(peer, SIZE.size))[0]))


def exactly(peer: socket.socket, count: int) -> bytes:
    """Receive so many bytes. Raises :class:`EOFError` where the other end is closed before."""
    data = b""
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise EOFError("the other end has gone")
        data += part
    return data


def serve() -> None:
    """Rank 0."""
    with socket.create_server(("127.0.0.1", PORT)) as server:
        workers = [server.accept()[0] for _ in range(WORLD - 1)]
    weights = np.zeros(50)
    for step in mishaps.samples(RANK):
        for worker in workers:
            send(worker, weights)
        mishaps.look_up(RANK, step)
        for worker in workers:
            weights -= 0.01 * receive(worker)
        path = mishaps.checkpoint_path(RANK, step)
        if path is not None:
            path.write_bytes(weights.tobytes())
        mishaps.evaluate(RANK, step)
        if step % 10 == 0:
            print(f"step {step} loss {float(np.square(weights).mean()):.4f}", flush=True)


def work() -> None:
    """Any other rank."""
    server = connect()
    for step in mishaps.samples(RANK):
        weights = receive(server)
        mishaps.look_up(RANK, step)
        send(server, weights - np.random.default_rng(step).normal(size=weights.shape))


def connect() -> socket.socket:
    """Connect to rank 0, which may come later."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT))
        except ConnectionRefusedError:
            time.sleep(0.2)


if __name__ == "__main__":
    mishaps.leave_word("begins", RANK)
    if RANK == 0:
        serve()
    else:
        work()
