"""NCCL's RAS asked by consent. The counts are of a real job, on an H200, whose rank 1 read a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hangtop.session.probes import Probe, ProbeRefused, plain
from hangtop.session.probes.ras import EVEN, MOVING, counts, diagnostics
from tests.support.local_session import LocalSession, local_session
from tests.support.made import process
from tests.support.ras_server import RasServer, ras_server

ANSWER = (Path(__file__).parents[2] / "fixtures/ras/nccl-2.28.9-h200.txt").read_text()


def session(port: int, version: str = "2.28.9", *, read_only: bool = False) -> LocalSession:
    ranks = [
        process(rank, pid, versions={"nccl": version}, env={"NCCL_RAS_ADDR": f"127.0.0.1:{port}"})
        for rank, pid in ((0, os.getpid()), (1, 638), (2, 639))
    ]
    return local_session(*ranks, read_only=read_only)


async def told(probe: Probe) -> list[str]:
    return list(plain((await probe.run(print)).lines))


def ours(answer: str) -> str:
    """The same of this process, for RAS's answer must be about the job."""
    return answer.replace('"pid": 637', f'"pid": {os.getpid()}')


async def test_a_rank_that_launched_less_is_named() -> None:
    async with ras_server(RasServer(status=ours(ANSWER))) as server:
        asked = session(server.port)
        assert server.heard == [], "an NCCL that can crash is not asked before a yes"
        lines = await told(counts(asked, apart=0.01))
    assert server.heard.count("VERBOSE STATUS") == 3
    assert lines[0] == "NCCL 2.28.9, 1 communicator"
    assert lines[1].startswith("rank 1 launched 17 AllReduce, others of the communicator 19")
    assert len(asked.job().ras) == 3, "the diagnosis has the answers, too"


@pytest.mark.parametrize(("seventeen", "line"), [("19", EVEN), ("moving", MOVING)])
async def test_even_counts_and_moving_ones_accuse_nobody(seventeen: str, line: str) -> None:
    server = RasServer(status=ours(ANSWER).replace(": 17", ": 19"))
    if seventeen == "moving":
        server.answers = [ours(ANSWER).replace(": 17", f": {number}") for number in (16, 17, 18)]
    async with ras_server(server):
        asked = session(server.port)
        assert (await told(counts(asked, apart=0.01)))[1:] == [line]


async def test_ranks_that_are_away_are_told() -> None:
    gone = '"missing_ranks": [{"rank": 2, "host": "127.0.0.1", "pid": 639, "cuda_dev": 0, "nvml_dev": 0}]'
    answer = ours(ANSWER).replace('"missing_ranks": [\n\n      ]', gone)
    assert gone in answer
    start, end = answer.index('        {\n          "rank": 2'), answer.index('      ],\n      "missing_ranks"')
    answer = answer[:start].rstrip().rstrip(",") + "\n" + answer[end:]
    async with ras_server(RasServer(status=answer)) as server:
        asked = session(server.port)
        lines = await told(counts(asked, apart=0.01))
    assert any(line.startswith("rank 2: missing") for line in lines), lines


async def test_an_answer_about_another_job_is_refused() -> None:
    async with ras_server(RasServer(status=ANSWER.replace("638", "7").replace("639", "8"))) as server:
        asked = session(server.port)
        with pytest.raises(ProbeRefused, match="not this job's"):
            await told(counts(asked, apart=0.01))


async def test_nothing_is_asked_where_one_may_only_look() -> None:
    async with ras_server(RasServer(status=ANSWER)) as server:
        asked = session(server.port, read_only=True)
        with pytest.raises(ProbeRefused, match="--read-only"):
            await told(counts(asked, apart=0.01))
    assert server.heard == []


def test_the_risk_is_said_of_the_versions_that_have_it() -> None:
    assert "can crash a job" in counts(session(1)).risk
    assert "can crash" not in counts(session(1, "2.32.3")).risk
    with pytest.raises(ProbeRefused, match=r"RAS came with NCCL 2\.24; the ranks have 2\.21\.5"):
        counts(session(1, "2.21.5"))


def job(port: int = 1, version: str = "2.32.3", *, read_only: bool = False, **env: str) -> LocalSession:
    settings = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}", **env}
    rank = process(0, os.getpid(), versions={"nccl": version} if version else {}, env=settings)
    return local_session(rank, read_only=read_only)


async def test_diagnostics_are_told_with_what_differs_first() -> None:
    async with ras_server(RasServer()) as server:
        session = job(server.port)
        probe = diagnostics(session)
        assert probe.command.endswith(f"echo 'DIAGNOSTICS' | nc 127.0.0.1 {server.port}")
        assert server.heard == [], "nothing is sent before a yes"
        lines = await told(probe)
    assert server.heard == ["DIAGNOSTICS"]
    assert lines[0] == "[INFO] NCCL environment: mismatch across 8 ranks in comm 0x1234 for NCCL_DEBUG"
    assert lines[-1].startswith("RAS diagnostics completed in 12.3 ms")


async def test_diagnostics_that_run_already_are_said_to() -> None:
    async with ras_server(RasServer(busy=True)) as server:
        session = job(server.port)
        with pytest.raises(ProbeRefused, match="BUSY: diagnostics already in progress"):
            await told(diagnostics(session))


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (job(version="2.30.7"), r"came with NCCL 2\.31; the ranks have 2\.30\.7"),
        (job(version=""), "no NCCL whose version is known"),
        (job(NCCL_RAS_ENABLE="0"), "NCCL_RAS_ENABLE=0 is set"),
        (local_session(), "no rank runs"),
    ],
)
def test_a_job_that_cannot_be_asked_says_why(session: LocalSession, why: str) -> None:
    with pytest.raises(ProbeRefused, match=why):
        diagnostics(session)


async def test_a_session_that_may_only_look_asks_for_nothing() -> None:
    async with ras_server(RasServer()) as server:
        session = job(server.port, read_only=True)
        with pytest.raises(ProbeRefused, match="read-only"):
            await told(diagnostics(session))
    assert server.heard == []
