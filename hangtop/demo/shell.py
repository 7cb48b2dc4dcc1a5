"""Run commands that arrive over SSH through a shell, as sshd does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import asyncssh

CHUNK = 65536


async def run(process: asyncssh.SSHServerProcess[bytes], environment: Mapping[str, str]) -> None:
    """Run the client's command and report its exit status. If the client disconnects, the child's input ends."""
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        *(("-c", process.command) if process.command else ("-i",)),
        env=dict(environment),
        cwd=environment["HOME"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=CHUNK,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.create_task(_feed(process, child.stdin))
    try:
        await asyncio.gather(_send(child.stdout, process.stdout), _send(child.stderr, process.stderr))
        status = await child.wait()
    finally:
        feeding.cancel()
    process.exit(status if status >= 0 else 128 - status)


async def _feed(process: asyncssh.SSHServerProcess[bytes], target: asyncio.StreamWriter) -> None:
    try:
        while data := await process.stdin.read(CHUNK):
            target.write(data)
            await target.drain()
    except (OSError, asyncssh.Error):
        pass  # one side is gone: end the input of the child
    finally:
        target.close()


async def _send(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    while data := await source.read(CHUNK):
        try:
            target.write(data)
            await target.drain()
        except (OSError, asyncssh.Error):
            return  # the client is gone: the child notices at its next write, as with sshd
