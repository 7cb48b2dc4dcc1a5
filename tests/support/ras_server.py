"""A RAS socket as NCCL 2.29 to 2.32 serves it (``src/ras/client_support.cc``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RasServer:
    """What one process of a job answers; commands are taken as they come, and told in ``heard``."""

    def __init__(self, status: str = "") -> None:
        self.port = 0
        self.heard: list[str] = []
        self._status = status

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until it goes, or has had an answer after which RAS closes."""
        try:
            while line := (await reader.readline()).decode().strip():
                self.heard.append(line)
                command = line.lower()
                if command.startswith("client protocol "):
                    writer.write(b"SERVER PROTOCOL 2\n")
                elif command.startswith("set format "):
                    writer.write(b"OK\n")
                elif command == "verbose status":
                    writer.write(self._status.encode())
                    break
                else:
                    writer.write(f"ERROR: Unknown command {line}\n".encode())
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def ras_server(made: RasServer) -> AsyncIterator[RasServer]:
    """Serve on a free port of 127.0.0.1."""
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with listening:
        made.port = listening.sockets[0].getsockname()[1]
        yield made
