"""Run commands that arrive over SSH through a shell, as sshd does."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Mapping

import asyncssh


async def run(process: asyncssh.SSHServerProcess[bytes], environment: Mapping[str, str]) -> None:
    """Run the client's command and report its exit status. If the client disconnects, the child's input ends."""
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        *(("-c", process.command) if process.command else ("-i",)),
        env=dict(environment),
        cwd=environment["HOME"],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    await process.redirect(child.stdin, child.stdout, child.stderr)
    status = await child.wait()
    await process.stdout.drain()  # until the end of the child's output
    await process.stderr.drain()
    process.exit(status if status >= 0 else 128 - status)
