"""A way that fails says how; one that breaks is no end of a command; nothing of it stays here."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Refused, TransportError, Waiting, waits_silently
from collectors.fleet.via import piped
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.process import PipedProcess
from collectors.fleet.via.way import Way, any_command


@asynccontextmanager
async def node(text: str, way: Way | None = None, waiting: Waiting = waits_silently) -> AsyncIterator[Piped]:
    made = Piped(Target("node0", "node0"), way or any_command(text), asyncio.Semaphore(8))
    await made.connect(waiting)
    try:
        yield made
    finally:
        await made.close()


def pid_of(process: PipedProcess) -> int:
    assert process._transport is not None
    return process._transport.get_pid()


async def gone(pid: int, seconds: float) -> bool:
    for _ in range(round(seconds / 0.05)):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("false %h", r"false ended \(status 1\) before a shell answered"),
        ("sh -c 'echo denied: no such pod >&2; exit 3' %h", r"ended \(status 3\) .* answered: denied: no such pod"),
        ("sh -c 'echo only a greeting' %h", "before a shell answered: only a greeting"),
        ("sh -c 'kill -9 $$' %h", "killed by SIGKILL"),
        ("sh -c 'echo \"\x1b[31mred\" >&2; exit 1' %h", "answered: red$"),
    ],
)
async def test_a_command_that_gives_no_shell(text: str, why: str) -> None:
    async with node(text) as made:
        with pytest.raises(TransportError, match=why):
            await made.run(["true"])


async def test_a_program_that_is_not_here_or_gives_a_terminal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="node0: no-such-program is not here: install it"):
        async with node("no-such-program %h"):
            pass
    pseudo = tmp_path / "pseudo"
    pseudo.write_text("#!/usr/bin/env python3\nimport pty\npty.spawn(['sh'])\n")
    pseudo.chmod(0o755)
    async with node(f"{pseudo} %h") as made:
        with pytest.raises(Refused, match="gives a terminal there"):
            await made.run(["true"])


async def test_one_that_never_answers_says_what_it_waits_for() -> None:
    told: list[str] = []
    way = replace(any_command("sh -c 'echo retrying >&2; exec sleep 60' %h"), opening=0.5)
    async with node("", way, told.append) as made:
        with pytest.raises(TransportError, match="sh gave no shell within 0 s: retrying"):
            await made.run(["true"])
    assert told == ["retrying"]


async def test_output_that_is_cut_off_is_no_success(tmp_path: Path) -> None:
    """As kubectl exec does at times: the output ends early, and the status is 0."""
    cut = "sh -c 'sh | head -c 60' %h"
    async with node(cut) as made:
        with pytest.raises(TransportError, match=r"sh ended \(status 0\) in the middle while seq ran"):
            await made.run(["seq", "1000"])
        assert not made.connected
        with pytest.raises(TransportError, match="not connected: sh ended"):
            await made.run(["true"])
        await made.connect()
        assert made.connected


async def test_a_broken_channel_leaves_the_others_and_the_last_one_the_node() -> None:
    async with node("sh -c 'exec sh' %h") as made:
        one = await made.start(["cat"], on_stdout=print, on_stderr=print)
        two = await made.start(["cat"], on_stdout=print, on_stderr=print)
        states = []
        for process in (one, two):
            os.kill(pid_of(process), signal.SIGKILL)
            assert await process.wait() == -1
            states.append(made.connected)
            assert "killed by SIGKILL" in made.why
        assert states == [True, False]


async def test_silence_is_the_end_of_it() -> None:
    async with node("sh -c 'exec sh' %h") as made:
        process = await made.start(["sleep", "60"], on_stdout=print, on_stderr=print)
        states = []
        for seconds in (piped.SILENCE - 1, piped.SILENCE + 1):
            made.not_responding(seconds)
            states.append(made.connected)
        assert states == [True, False]
        assert "no answer for 12 s" in made.why
        assert await process.wait() == -1
        assert await gone(pid_of(process), 60)


async def test_what_does_not_heed_its_end_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.fleet.via.process.GRACE", 0.2)
    async with node("""sh -c 'trap "" TERM; sh; sleep 60' %h""") as made:
        process = await made.start(["cat"], on_stdout=print, on_stderr=print)
        process.kill()
        assert await gone(pid_of(process), 60)


async def test_a_child_that_keeps_the_streams_open_keeps_nobody(tmp_path: Path) -> None:
    """As the master of a ControlMaster socket does, which ssh leaves behind."""
    async with node("sh -c 'sleep 30 & exec sh' %h") as made, asyncio.timeout(25):
        assert (await made.run(["echo", "x"])).stdout == b"x\n"
