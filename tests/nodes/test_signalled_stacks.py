"""Stacks by a signal from real ranks that nobody may trace: the dumper and its py-spy run where ptrace is refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from collectors.fleet.local import Local
from collectors.node.processes.pages import find, memfd_device, read_head
from collectors.node.stacks import signalled_stacks
from collectors.probes.stacks.dump import DumpManner, dump
from collectors.samples.stacks import StackDump
from hangtop.cli.stacks import command
from hangtop.demo.job.nccl.library import compiler
from tests.support.torch_ranks import free_port

pytestmark = [pytest.mark.torch, pytest.mark.nodes]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def refused(tmp_path: Path) -> str:
    """An interpreter below which nobody may look into another process."""
    source, program, python = ROOT / "tests/support/refuse_ptrace.c", tmp_path / "refuse", tmp_path / "python3"
    subprocess.run([compiler(), "-O1", "-o", str(program), str(source)], check=True)
    python.write_text(f'#!/bin/sh\nexec {program} -m {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


@contextmanager
def ranks(start: str = "") -> Iterator[list[int]]:
    """Pids of two ranks over gloo that make steps; ``start`` are words for their ``start()``."""
    job = (ROOT / "tests/support/inside_job.py").read_text().replace("recorder=False", f"recorder=False{start}")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(free_port()), "HX_MARK": str(os.getpid())}  # fmt: skip
    started = [
        subprocess.Popen([sys.executable, "-c", job], env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
        for rank in range(2)
    ]  # fmt: skip
    try:
        for rank in started:
            assert rank.stdout is not None
            assert rank.stdout.readline() == b"up\n"
        yield [rank.pid for rank in started]
        assert [rank.poll() for rank in started] == [None, None], "a signal ended a rank"
    finally:
        for rank in started:
            rank.kill()
            rank.communicate()


def look(python: str, pids: list[int], *, signal: bool) -> list[StackDump]:
    async def looked() -> list[StackDump]:
        node = Local("node1")
        try:
            return await dump(node, pids, manner=DumpManner(signal=signal), python=python)
        finally:
            await node.close()

    return asyncio.run(looked())


def step_of(pid: int) -> int:
    device = memfd_device()
    assert device is not None
    page = find("/proc", pid, os.getuid(), device)
    assert page is not None
    head = read_head(page)
    os.close(page.file)
    assert head is not None
    return head.step


@pytest.mark.slow
def test_ranks_write_their_stacks_on_the_signal_that_they_named_and_go_on(refused: str) -> None:
    with ranks() as pids:
        for unasked in look(refused, pids, signal=False):
            assert unasked.error.startswith("denied"), unasked
            assert unasked.threads == []
        for _ in range(2):  # what was written before is not read again
            told = look(refused, pids, signal=True)
            assert [(one.method, one.error) for one in told] == [("faulthandler", "")] * 2
            for one in told:
                main = next(thread for thread in one.threads if thread.os_thread_id == one.pid)
                assert main.frames[-1].name == "<module>"
                assert sum(thread.os_thread_id == one.pid for thread in one.threads) == 1
        before = [step_of(pid) for pid in pids]
        for _ in range(100):
            if all(step_of(pid) > step for pid, step in zip(pids, before, strict=True)):
                break
            asyncio.run(asyncio.sleep(0.1))
        else:
            pytest.fail("the ranks make no more steps")


def test_the_command_says_what_it_sends_and_asks_first(refused: str) -> None:
    with ranks() as pids:
        words = ["--json", "--python", refused, "--job", f"HX_MARK={os.getpid()}"]

        def ask(*more: str) -> Result:
            return CliRunner().invoke(command, [*words, *more], catch_exceptions=False)

        told = ask()
        assert told.exit_code == 1
        assert "ranks 0-1 would write their stacks on a signal: --signal asks first" in told.stderr
        assert [one["error"][:6] for one in json.loads(told.stdout)["ranks"]] == ["denied"] * 2
        nobody = ask("--signal")
        assert (nobody.exit_code, nobody.stdout) == (2, "")
        assert f"kill -63 {pids[0]} {pids[1]}" in nobody.stderr or f"kill -63 {pids[1]} {pids[0]}" in nobody.stderr
        assert "--yes" in nobody.stderr
        yes = ask("--signal", "--yes")
        assert yes.exit_code == 0, yes.stderr
        assert all(one["frames"] and not one["error"] for one in json.loads(yes.stdout)["ranks"])


@pytest.mark.slow
def test_a_rank_that_named_no_signal_is_left_alone(refused: str) -> None:
    with ranks(", stacks=False") as pids:
        for one in look(refused, pids, signal=True):
            assert one.error.startswith("denied")


@pytest.mark.slow
def test_where_py_spy_may_look_nobody_is_signalled() -> None:
    with ranks() as pids:
        assert {one.method for one in look(sys.executable, pids, signal=True)} == {"nonblocking"}


def test_a_signal_that_nobody_catches_is_not_sent() -> None:
    """It would end the process: a page may say anything."""
    status = b"Name:\tpython\nSigBlk:\t0000000000000000\nSigCgt:\t4000000000000002\n"
    assert signalled_stacks.caught(status, 63)
    assert signalled_stacks.caught(status, 2)
    assert not signalled_stacks.caught(status, 62)
    assert not signalled_stacks.caught(status.replace(b"SigBlk:\t0", b"SigBlk:\t4"), 63)
    assert not signalled_stacks.caught(b"", 63)
