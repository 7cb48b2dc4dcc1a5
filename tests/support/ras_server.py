"""A RAS socket as NCCL 2.29 to 2.32 serves it (``src/ras/client_support.cc``), with all of its commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

REPORT = """node042:12345 NCCL DIAG === RAS Diagnostics ===
node042:12345 NCCL DIAG [OK]   GPU inventory: 8x NVIDIA H100 per node consistent across 8 ranks in comm 0x1234
node042:12345 NCCL DIAG [INFO] NCCL environment: mismatch across 8 ranks in comm 0x1234 for NCCL_DEBUG
node042:12345 NCCL DIAG [INFO] NCCL environment: NCCL_DEBUG=INFO on rank(s) {0,1,2,3}
node042:12345 NCCL DIAG RAS diagnostics completed in 12.3 ms across 8 RAS peers
"""


class RasServer:
    """What one process of a job answers; commands are taken as they come, and told in ``heard``."""

    def __init__(self, *, busy: bool = False, status: str = "") -> None:
        self.port = 0
        self.heard: list[str] = []
        self._busy = busy
        self._status = status
        self.answers: list[str] = []
        """Answers to one question after the other, before what is answered always."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until it goes, or has had an answer after which RAS closes."""
        json = False
        try:
            while line := (await reader.readline()).decode().strip():
                self.heard.append(line)
                command = line.lower()
                if command.startswith("client protocol "):
                    writer.write(b"SERVER PROTOCOL 2\n")
                elif command.startswith("set format "):
                    json = command.endswith("json")
                    writer.write(b"OK\n")
                elif command == "diagnostics" and json:
                    writer.write(b"ERROR: diagnostics only supports text output\n")
                    break
                elif command == "diagnostics":
                    writer.write(b"BUSY: diagnostics already in progress\n" if self._busy else REPORT.encode())
                    break
                elif command == "verbose status":
                    writer.write((self.answers.pop(0) if self.answers else self._status).encode())
                    break
                elif command.startswith("control profiler_mask "):
                    value = line.split(" ", 2)[2]
                    good = value in ("none", "all", "coll,kernelch")
                    writer.write(b"OK\n" if good else f"ERROR: Invalid profiler mask value '{value}'\n".encode())
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
