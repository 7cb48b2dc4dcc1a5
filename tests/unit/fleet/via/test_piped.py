"""A way that fails says how; one that breaks is no end of a command; nothing of it stays here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Refused, TransportError
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import Way, any_command


@asynccontextmanager
async def node(text: str, way: Way | None = None) -> AsyncIterator[Piped]:
    made = Piped(Target("node0", "node0"), way or any_command(text), asyncio.Semaphore(8))
    await made.connect()
    try:
        yield made
    finally:
        await made.close()


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


async def test_a_program_that_is_not_here_is_refused() -> None:
    with pytest.raises(Refused, match="node0: no-such-program is not here: install it"):
        async with node("no-such-program %h"):
            pass


async def test_one_that_never_answers_says_what_it_waits_for() -> None:
    way = replace(any_command("sh -c 'echo retrying >&2; exec sleep 60' %h"), opening=0.5)
    async with node("", way) as made:
        with pytest.raises(TransportError, match=r"sh gave no shell within 0 s .*: retrying"):
            await made.run(["true"])


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


async def test_a_child_that_keeps_the_streams_open_keeps_nobody(tmp_path: Path) -> None:
    """As the master of a ControlMaster socket does, which ssh leaves behind."""
    async with node("sh -c 'sleep 30 & exec sh' %h") as made, asyncio.timeout(25):
        assert (await made.run(["echo", "x"])).stdout == b"x\n"
