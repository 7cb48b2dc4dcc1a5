"""Runs the commands that come over SSH as sshd would: through a shell, with or without a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable, Mapping

import asyncssh

Setup = Callable[[], None]
CHUNK = 65536


async def run(process: asyncssh.SSHServerProcess[bytes], environment: Mapping[str, str], setup: Setup) -> None:
    """Run what the client asked for and report how it ended.

    ``setup`` runs in the child before the shell. When the client goes, the child's input ends; nothing is killed.
    """
    if process.term_type:
        await _with_terminal(process, {**environment, "TERM": process.term_type}, setup)
        return
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        *(("-c", process.command) if process.command else ("-i",)),
        env=dict(environment),
        cwd=environment["HOME"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=setup,
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
    _report(process, status)


async def _feed(process: asyncssh.SSHServerProcess[bytes], target: asyncio.StreamWriter) -> None:
    try:
        while data := await process.stdin.read(CHUNK):
            target.write(data)
            await target.drain()
    except (OSError, asyncssh.Error):
        pass  # one side is gone: so is the other one's input
    finally:
        target.close()


async def _send(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    while data := await source.read(CHUNK):
        try:
            target.write(data)
            await target.drain()
        except (OSError, asyncssh.Error):
            return  # the client is gone, as sshd's would be: the child notices at its next write


def _report(process: asyncssh.SSHServerProcess[bytes], status: int) -> None:
    if status < 0:
        process.exit(128 - status)
    else:
        process.exit(status)


async def _with_terminal(process: asyncssh.SSHServerProcess[bytes], env: Mapping[str, str], setup: Setup) -> None:
    """Run a shell, or a command, on a terminal of its own."""
    master, slave = pty.openpty()
    columns, rows, _, _ = process.term_size
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows or 24, columns or 80, 0, 0))

    def become_foreground() -> None:
        setup()
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    child = await asyncio.create_subprocess_exec(
        os.environ.get("SHELL", "/bin/sh"),
        *(("-c", process.command) if process.command else ()),
        env=dict(env),
        cwd=env["HOME"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=become_foreground,
    )
    os.close(slave)
    await process.redirect(stdin=os.dup(master), stdout=master, send_eof=False)
    _report(process, await child.wait())
