"""The demo's SSH servers, as a client meets them."""

from __future__ import annotations

import os
from pathlib import Path

import asyncssh

from hangtop.demo.servers import Servers


async def test_a_client_that_ends_a_command_early_loses_that_command_alone(tmp_path: Path) -> None:
    servers = Servers(tmp_path, {"node1": {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}})
    config = await servers.start()
    try:
        async with asyncssh.connect("node1", config=[str(config)]) as connection:
            for _ in range(3):
                endless = await connection.create_process("yes", encoding=None)
                await endless.stdout.read(1000)
                endless.close()
                await endless.wait_closed()
            done = await connection.run("echo well", check=True)
            assert done.stdout == "well\n"
    finally:
        await servers.close()
