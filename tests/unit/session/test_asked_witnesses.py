"""What is asked of a job's own witnesses by consent: NCCL's RAS and CUDA, by stand-ins that speak as they do."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors.node.stacks import cuda_core
from collectors.probes.cuda_core.remote import ask
from collectors.probes.cuda_core.run import kernels
from collectors.samples.core_dump import FLAGS, LIGHT, refusal
from collectors.samples.ranks import RankProcess
from hangtop.session.asking.cuda_core import core_dumps
from hangtop.session.asking.orders import WitnessRefused
from tests.support.local_session import local_session
from tests.support.made import process

# --- CUDA --------------------------------------------------------------------------------------------------------

ARMED = {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1", FLAGS: ",".join(LIGHT)}
DRIVER = """
import os, sys, time
pipe, core = (sys.argv[1], sys.argv[2].replace("%p", str(os.getpid())).replace("%h", "node1"))
pipe = pipe.replace("%p", str(os.getpid())).replace("%h", "node1")
os.mkfifo(pipe, 0o600)
reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
print("ready", flush=True)
while True:
    try:
        said = os.read(reading, 4096)
    except BlockingIOError:
        said = b""
    if said:
        with open(core, "wb") as file:
            file.write(b"\\x7fELF")
            time.sleep(0.2)
            file.write(b"x" * 500)
        os.read(reading, 1 << 20)
        if "skip_abort" not in os.environ["CUDA_COREDUMP_GENERATION_FLAGS"] and "ENDS" in os.environ:
            sys.exit(1)
    time.sleep(0.02)
"""
SHOWN = """Opening GPU coredump: {core}
[Current focus set to CUDA kernel 0, grid 53, block (0,0,0), thread (0,0,0), device 0, sm 124, warp 0, lane 0]
#0  0x00007f2e6fbff300 in ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)<<<(24,1,1),(512,1,1)>>> ()
  Kernel Parent Dev Grid Status         SMs Mask   GridDim  BlockDim Invocation
*      0      -   0   53 Active 0x00000000ffffff (24,1,1) (512,1,1) ncclDevKernel_AllGather_RING_LL(args=0)
       1      -   0   54 Active 0x00000000000001 (1,1,1) (128,1,1) conditional_hang_kernel()
"""


@contextmanager
def driver(folder: Path, env: Mapping[str, str]) -> Iterator[RankProcess]:
    """A process that reads its pipe as CUDA's driver does."""
    program = folder / "driver.py"
    program.write_text(textwrap.dedent(DRIVER))
    settings = {
        "CUDA_COREDUMP_PIPE": f"{folder}/pipe_%h_%p", "CUDA_COREDUMP_FILE": f"{folder}/core_%h_%p", **env
    }  # fmt: skip
    words = [sys.executable, str(program), settings["CUDA_COREDUMP_PIPE"], settings["CUDA_COREDUMP_FILE"]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings}) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        try:
            yield process(3, made.pid, env=settings)
        finally:
            made.kill()


def cores(folder: Path) -> list[Path]:
    return list(folder.glob("core_*"))


def tool_that_runs(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cuda-gdb").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "cuda-gdb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def cuda_gdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cuda-gdb that prints what the real one prints of such a dump."""
    tool_that_runs(f"cat <<'E'\n{SHOWN}E\n", tmp_path, monkeypatch)


@pytest.mark.usefixtures("cuda_gdb")
async def test_a_dump_names_the_kernels(tmp_path: Path) -> None:
    with driver(tmp_path, ARMED) as rank:
        session = local_session(rank)
        order = core_dumps(session, [3])
        assert f"head -c 1M /dev/zero > {tmp_path}/pipe_node1_{rank.pid}" in order.command()
        assert f"target cudacore {tmp_path}/core_node1_{rank.pid}" in order.command()
        assert "It ends the rank" in order.risk()
        assert cores(tmp_path) == [], "nothing is asked before a yes"
        (line,) = await order.carry_out(session)
    (core,) = cores(tmp_path)
    kernels_seen = "ncclDevKernel_AllGather_RING_LL and conditional_hang_kernel"
    assert line == f"rank 3 on node1: in {kernels_seen}  ({core}, 504 B)"


async def test_a_dump_that_nobody_reads_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    flags = {FLAGS: ",".join([*LIGHT, "skip_abort"])}
    with driver(tmp_path, {**ARMED, **flags}) as rank:
        session = local_session(rank)
        order = core_dumps(session, [3])
        assert "It ends the rank" in order.risk(), "also where it was told not to"
        (line,) = await order.carry_out(session)
    assert "no cuda-gdb on this node reads it" in line
    assert "504 B" in line


async def test_long_names_of_kernels_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool_that_runs(f"cat <<'E'\n{'[noise]' * 2000}\n{SHOWN}E\n", tmp_path, monkeypatch)
    with driver(tmp_path, ARMED) as rank:
        session = local_session(rank)
        (line,) = await core_dumps(session, [3]).carry_out(session)
    assert "in ncclDevKernel_AllGather_RING_LL and conditional_hang_kernel" in line


async def test_a_cuda_gdb_that_says_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool_that_runs("exec yes", tmp_path, monkeypatch)
    with driver(tmp_path, ARMED) as rank:
        session = local_session(rank)
        (line,) = await core_dumps(session, [3]).carry_out(session)
    assert "cuda-gdb was ended after 60 s or 128 KB" in line


@pytest.mark.usefixtures("cuda_gdb")
async def test_the_dump_of_a_rank_that_ends_is_read_and_its_end_is_told(tmp_path: Path) -> None:
    with driver(tmp_path, {**ARMED, "ENDS": "1"}) as rank:
        session = local_session(rank)
        (line,) = await core_dumps(session, [3]).carry_out(session)
    assert "in ncclDevKernel_AllGather_RING_LL" in line
    assert line.endswith("504 B); the rank has ended since")


@pytest.mark.usefixtures("cuda_gdb")
def test_root_reads_no_dump_of_a_container_s_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.node.processes.owner.may_be_imitated", lambda *_, within: not within)
    with driver(tmp_path, ARMED) as rank:
        dumped = ask.ask(3, rank.pid, 10.0)
    assert dumped.size == 504
    assert (dumped.shown, dumped.why) == ("", "it is root's of a container: read it there")


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({}, "was started without CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1"),
        ({"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1"}, "would write all of its GPU's memory"),
        ({**ARMED, FLAGS: "skip_global_memory"}, "would write all of its GPU's memory"),
    ],
)
def test_a_rank_that_was_not_started_for_it_is_not_asked(env: dict[str, str], why: str) -> None:
    with pytest.raises(WitnessRefused, match=f"{why}.*hangtop repair launch"):
        core_dumps(local_session(process(3, os.getpid(), env=env)), [3])
    assert refusal({"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1", **ARMED, FLAGS: ""}) == ""


async def test_a_process_that_never_made_its_pipe_is_said_to_have_none() -> None:
    here = subprocess.Popen(["sleep", "60"], env={**os.environ, **ARMED})  # noqa: ASYNC220 (at once)
    try:
        session = local_session(process(3, here.pid, env=ARMED))
        (line,) = await core_dumps(session, [3]).carry_out(session)
    finally:
        here.kill()
        here.wait()
    assert "has no such pipe open" in line


def test_a_pipe_without_a_reader_or_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert cuda_core.trigger(str(pipe), None) == "its driver does not read the pipe"
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cuda_core.trigger(str(pipe), os.getuid() + 1) == "that is no pipe of the rank's"
        assert os.read(reading, 1) == b"", "nothing was written"
        assert cuda_core.trigger(str(pipe), os.getuid()) == "", "what did not fit was not waited for"
    finally:
        os.close(reading)


def test_the_command_that_is_shown_quotes_what_a_rank_chose() -> None:
    odd = process(3, os.getpid(), env={**ARMED, "CUDA_COREDUMP_PIPE": "/a b;id", "CUDA_COREDUMP_FILE": "/c';id"})
    shown = core_dumps(local_session(odd), [3]).command()
    assert "head -c 1M /dev/zero > '/a b;id'  # process" in shown
    assert shlex.split(shown.partition("-ex ")[2]) == ["target cudacore /c';id"]


def test_an_old_dump_and_a_link_are_none(tmp_path: Path) -> None:
    old = tmp_path / "core_1"
    old.write_bytes(b"x")
    os.utime(old, (1.0, 1.0))
    (tmp_path / "core_2").symlink_to("/etc/hostname")
    assert cuda_core.written(f"{tmp_path}/core_*", time.time(), 0.1, None) is None


def test_a_dump_is_done_when_it_grows_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core, asleep = tmp_path / "core_3", list[float]()

    def sleep(seconds: float) -> None:
        asleep.append(seconds)
        if len(asleep) == 2:
            core.unlink()  # its owner may take it away at any time
        elif len(asleep) < 5:
            core.write_bytes(b"x" * len(asleep))

    monkeypatch.setattr(cuda_core.time, "sleep", sleep)  # type: ignore[attr-defined]
    assert cuda_core.written(f"{tmp_path}/core_*", time.time(), 60.0, None) == (str(core), 4)
    assert len(asleep) == 5


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("#0  0x7f in void (anonymous namespace)::soft<c10::Half, 8>(c10::Half*, int)<<<(1,1,1),(32,4,1)>>> ()\n",
         ("void (anonymous namespace)::soft<c10::Half, 8>",)),
        ("#0  0x00007f2e in conditional_hang_kernel<<<(1,1,1),(128,1,1)>>> () at hang.py:31\n",
         ("conditional_hang_kernel",)),
        ("No CUDA kernels.\n", ()),
    ],
)  # fmt: skip
def test_kernels_as_cuda_gdb_writes_them(shown: str, expected: tuple[str, ...]) -> None:
    assert kernels(shown) == expected
