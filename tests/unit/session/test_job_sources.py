"""The job's own witnesses: dumps from the nodes' disks, and RAS through the connection, about this job alone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError
from collectors.formats import flight_recorder
from collectors.node.nccl.ras import RasPlace, connect
from collectors.probes import ras
from collectors.probes.recorder import Dump
from hangtop.diagnosis.node import Rank
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching.job_sources import about, has_safe_ras
from tests.support.made import process, tick


def document(pid: int) -> str:
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    member = {
        "rank": 0, "host": "node1", "pid": pid, "cuda_dev": 0, "nvml_dev": 0, "status": status,
        "collective_counts": {"AllReduce": 12},
    }  # fmt: skip
    counts = {"ranks_count": 1, "missing_ranks_count": 0}
    communicator = {"hash": "0x27a0", "size": 1, **counts, "ranks": [member], "missing_ranks": []}
    return json.dumps({"nccl_version": "2.28.9", "communicators_count": 1, "communicators": [communicator], "ras": {}})


@asynccontextmanager
async def server(answer: str) -> AsyncIterator[int]:
    """A RAS socket: answers the commands in lines, and closes after the status."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readline()).decode().strip():
            if line.startswith("CLIENT"):
                writer.write(b"SERVER PROTOCOL 2\n")
            elif line.startswith("SET FORMAT"):
                writer.write(b"OK\n")
            else:
                writer.write(answer.encode())
                break
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_an_answer_in_json() -> None:
    async with server(document(77)) as port:
        report = await ras.ask(Local("node1"), sys.executable, os.getpid(), ("127.0.0.1", port), 5.0)
    assert report.communicators[0].ranks[0].counts == {"AllReduce": 12}


async def test_nonsense_is_an_error() -> None:
    async with server("nothing of the kind\n") as port:
        with pytest.raises(TransportError, match="RAS socket"):
            await ras.ask(Local("node1"), sys.executable, os.getpid(), ("127.0.0.1", port), 5.0)


async def test_nobody_listens() -> None:
    with pytest.raises(TransportError):
        await ras.ask(Local("node1"), sys.executable, os.getpid(), ("127.0.0.1", 1), 5.0)


ELSEWHERE = "192.0.2.1"  # of TEST-NET-1: nobody's


async def test_no_other_machine_is_connected_to_whatever_the_job_names() -> None:
    node, where = Local("node1"), (ELSEWHERE, 28028)
    with pytest.raises(TransportError, match=r"192\.0\.2\.1 is no address of this machine"):
        await ras.ask(node, sys.executable, os.getpid(), where, 5.0)


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_listener_of_another_user_is_not_connected_to() -> None:
    serve = "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    words = [sys.executable, "-c", f"import os, socket; os.setuid(65534); {serve}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        port = int(stranger.stdout.readline())
        with pytest.raises(PermissionError, match=f"port {port} is listened on by uid 65534"):
            connect(RasPlace(os.getpid(), "127.0.0.1", port), 5.0)
        connect(RasPlace(stranger.pid, "127.0.0.1", port), 5.0).close()
        stranger.kill()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0"])
def test_addresses_of_this_machine_are_its_own(host: str) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listening:
        near = connect(RasPlace(os.getpid(), host, listening.getsockname()[1]), 5.0)
        far, address = listening.accept()
        with near, far:
            assert near.getsockname() == address


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("", ras.ADDRESS),
        ("host:1234", ("host", 1234)),
        ("[::1]:99", ("::1", 99)),
        (":5", ras.ADDRESS),
        ("host", ras.ADDRESS),
    ],
)
def test_the_address_of_a_job(setting: str, expected: tuple[str, int]) -> None:
    assert ras.address(setting) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.28.9", False), ("2.29.2", True), ("2.30.7", True), ("2.21.5", False), ("", False), ("3.0", True)],
)
def test_which_nccl_may_be_asked(version: str, expected: bool) -> None:
    assert has_safe_ras({"nccl": version}) is expected


async def test_a_report_about_others_is_not_this_job_s() -> None:
    async with server(document(77)) as port:
        report = await ras.ask(Local("node1"), sys.executable, os.getpid(), ("127.0.0.1", port), 5.0)
    assert about(report, [Rank("node1", process(0, 77))])
    assert not about(report, [Rank("node1", process(0, 78))])
    assert about(report, [Rank("node1", process(0, 78, own_pid=77))]), "in a container it is known by another number"


async def test_when_a_dump_was_written_is_kept_beside_its_newest_entry() -> None:
    data = (Path(__file__).parent.parent.parent / "fixtures" / "recorder" / "gloo_hang_0").read_bytes()
    session = Session(SessionOptions(targets=("node1",)))
    await session.job_sources.keep(Dump("node1", 0, "/tmp/gloo_hang_0", 1.9e9, data, "", ""))
    kept = session.state.recorders[0]
    assert (kept.written, kept.at) == (1.9e9, kept.collectives[-1].created)


@pytest.mark.parametrize(("started", "kept"), [(-5.0, True), (5.0, False)])
async def test_a_dump_with_collectives_from_before_its_rank_began_is_another_run_s(started: float, kept: bool) -> None:
    """Both runs have one home, in which each writes its dumps to the same names."""
    data = (Path(__file__).parent.parent.parent / "fixtures" / "recorder" / "gloo_hang_0").read_bytes()
    session = Session(SessionOptions(targets=("node1",)))
    first = flight_recorder.read(data, "", 0).collectives[0].created
    assert first is not None
    session.samples("node1", [process(0, 77, started=first + started), tick(time.time())])
    why = await session.job_sources.keep(Dump("node1", 0, "/tmp/gloo_hang_0", 1.9e9, data, "", ""))
    assert (0 in session.state.recorders) is kept
    assert ("another run" in why) is not kept
