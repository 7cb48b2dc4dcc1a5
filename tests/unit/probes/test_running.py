"""One way to run a program on a node: kept alive by heartbeats, gone without them, bounded in what it says."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collectors.fleet import payload
from collectors.fleet.transport import TransportError
from collectors.fleet.via.piped import PipedProcess
from collectors.node import watchdog
from collectors.probes.recorder import fetch
from collectors.probes.running import Limits, Running
from collectors.samples.probes import Observation
from tests.support.here import here
from tests.support.node_agent import alive, children

NEVER = """\
#!/bin/sh
trap '' HUP INT TERM PIPE ALRM
exec sleep 3600
"""


def quick(entry: str, arguments: object, seconds: int) -> bytes:
    """A program that ends after so many seconds without a heartbeat, instead of ten."""
    package, _, module = entry.rpartition(".")
    code = f"""
from {package} import {module}
from collectors.node import watchdog
def main(arguments):
    watchdog.watch.__defaults__ = (None, {seconds})
    {module}.main(arguments)
"""
    return payload.pack("quick", arguments, extra={"quick.py": code.encode()})


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(NEVER)
        (folder / name).chmod(0o755)


async def test_nothing_outlives_its_connection_by_more_than_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flame graphs, native stacks, paths, InfiniBand and preflight, each at what takes it longest; here, four."""
    assert watchdog.watch.__defaults__ == (None, 9)
    monkeypatch.setattr("collectors.probes.running.BEAT_SECONDS", 0.3)
    put(tmp_path, "py-spy", "ibping", "tcpdump")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    me = os.getpid()
    programs: dict[str, Any] = {
        "collectors.node.network.path": {"listen": True},
        "collectors.node.machine.preflight": {"listen": [0]},
        "collectors.probes.remote.tools": {"serve": ["ibping", "-S"]},
        "collectors.node.stacks.flamerecord": [[me], 600.0],
        "collectors.node.stacks.stackdump": [[me], True, True, 200, 240.0],
        "collectors.node.processes.launch": {"pid": None, "python": "", "env": {}, "command": ["sleep", "600"]},
    }
    link = here()
    running = [
        Running(link, payload.command(sys.executable), quick(entry, arguments, 4), lambda _: False)
        for entry, arguments in programs.items()
    ]
    processes = []
    for one in running:
        await one.start()
        assert isinstance(one._process, PipedProcess)
        processes.append(one._process)
    pids: dict[str, set[int]] = {entry: set() for entry in programs}
    async with asyncio.timeout(60):
        while sum(map(len, pids.values())) < 2 * len(programs) - 2:  # all but two start something
            for entry, process in zip(programs, processes, strict=True):
                assert process._transport is not None
                for pid in children(process._transport.get_pid()):  # of the shell
                    pids[entry] |= {pid, *children(pid)}
            await asyncio.sleep(0.05)
    assert all(pids.values()), pids
    for name in ("_call", "kill"):  # nothing reaches a process any more, not even the end of its input
        monkeypatch.setattr(PipedProcess, name, lambda *_: None)
    for one in running:
        one.stop()
    async with asyncio.timeout(40):  # four seconds on a machine that does nothing else
        while any(alive(pid) for of in pids.values() for pid in of):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
        await asyncio.gather(*(process.wait() for process in processes))


async def test_what_is_needed_lives_as_long_as_it_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path probe's listeners, which used to end after 90 s whatever happened."""
    ports: list[int] = []

    def take(line: bytes) -> bool:
        _, found = msgspec.json.decode(line, type=tuple[str, Observation])
        assert isinstance(found.value, int)
        ports.append(found.value)
        return len(ports) == 2

    packed = quick("collectors.node.network.path", {"listen": True}, 1)
    monkeypatch.setattr("collectors.probes.running.BEAT_SECONDS", 0.3)
    async with Running(here(), payload.command(sys.executable), packed, take) as running:
        await running.finished(10)
        await asyncio.sleep(1.5)
        socket.create_connection(("127.0.0.1", ports[0])).close()
        assert not running.over
    assert await running.ended(5) in (-signal.SIGKILL, 0)


def says(text: str, *, then: str = "") -> list[str]:
    return [sys.executable, "-c", f"import sys, time\nsys.stdout.buffer.write({text})\nsys.stdout.flush()\n{then}"]


async def hears(text: str, take: Callable[[bytes], bool], **limits: int) -> str:
    """Why there was no last line."""
    with pytest.raises(TransportError) as why:
        async with Running(here(), says(text), b"", take, limits=Limits(**limits)) as running:
            await running.finished(10)
    return str(why.value)


async def test_what_it_says_is_bounded() -> None:
    lines: list[bytes] = []

    def take(line: bytes) -> bool:
        lines.append(line)
        return False

    assert "a line of more than 1 MB" in await hears(r"b'a\n' + b'x' * (3 << 20) + b'\nb\n'", take, line=1 << 20)
    assert lines == [b"a"]
    lines.clear()
    assert "more than 2 MB" in await hears(r"(b'x' * 1000 + b'\n') * 9000", take, total=2 << 20)
    assert len(lines) <= 2100


async def test_what_cannot_be_read_is_told_and_raises_nothing() -> None:
    def take(line: bytes) -> bool:
        return bool(msgspec.json.decode(line, type=tuple[str, str]))

    for said in (r"b'nonsense\n'", r"b'[\"a\",\"\xff\"]\n'", r"b'[1]\n'"):
        assert "unreadable answer" in await hears(said, take)


async def test_a_program_that_ends_early_says_its_last_words() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    with pytest.raises(TransportError, match="here: no such thing"):
        async with Running(here(), command, b"", lambda _: False) as running:
            await running.finished(10)


async def test_a_rank_without_a_dump_is_told() -> None:
    (dump,) = await fetch(here(), [(3, 1 << 30, 0.0)], fresh=False)
    assert (dump.node, dump.rank, dump.data) == ("here", 3, b"")
    assert "may not be read" in dump.why
