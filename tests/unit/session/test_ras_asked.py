"""When NCCL's RAS is asked by itself: of a job that stands still or may, never of one that is seen to move."""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.job import JobMotion
from hangtop.session.motion.progress import Progress
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching import job_sources, triage, watcher
from hangtop.session.watching.job_sources import asked_ranks
from tests.support.local_session import LocalSession, local_session
from tests.support.made import hello, process, tick
from tests.support.ras_server import RasServer, ras_server
from tests.unit.session.test_watcher import MovedFeed


@pytest.mark.parametrize(("moving", "asked"), [(True, 0), (None, 1), (False, 1)])
async def test_a_job_that_moves_is_not_asked(monkeypatch: pytest.MonkeyPatch, moving: bool | None, asked: int) -> None:
    session = Session(SessionOptions(), feed=MovedFeed())
    questions: list[float] = []

    async def ras() -> None:
        questions.append(session.now())

    monkeypatch.setattr(session.job_sources, "ras", ras)
    moves = property(lambda _: JobMotion(moving=moving), lambda _, value: None)
    monkeypatch.setattr(type(session.progress), "motion", moves, raising=False)
    monkeypatch.setattr(Progress, "stood_still", property(lambda _: 30.0, lambda _, value: None), raising=False)
    await session.watcher.step()
    await asyncio.sleep(0)
    assert len(questions) == asked
    await session.close()


# --- triage ------------------------------------------------------------------------------------------------------


def status(*members: tuple[int, int, int], version: str = "2.30.7") -> str:
    """RAS's answer of one communicator; members are rank, pid and how many AllReduces they launched."""
    well = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    ranks = [
        {
            "rank": rank, "host": "node1", "pid": pid, "cuda_dev": 0, "nvml_dev": 0, "status": well,
            "collective_counts": {"AllReduce": launched},
        }
        for rank, pid, launched in members
    ]  # fmt: skip
    one = {"hash": "0x1", "size": len(ranks), "ranks_count": len(ranks), "missing_ranks_count": 0, "ranks": ranks}
    known = {"nccl_version": version, "communicators_count": 1, "communicators": [one | {"missing_ranks": []}]}
    return json.dumps(known | {"ras": {}})


def job(port: int, *ranks: RankProcess, monkeypatch: pytest.MonkeyPatch) -> LocalSession:
    """Ranks on this machine whose NCCL has RAS at this port, and whose job stands still."""
    monkeypatch.setattr(Progress, "stood_still", property(lambda _: 30.0, lambda _, value: None), raising=False)
    monkeypatch.setattr(job_sources, "RAS_GAP", 0.05)
    monkeypatch.setattr(triage, "AT_LEAST_TO", 1.0)
    env, versions = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}, {"nccl": "2.30.7"}
    return local_session(*(rank._replace(env=env, versions=versions) for rank in ranks), read_only=True)


async def test_triage_asks_a_job_that_stands_still_until_its_counts_are_known_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = os.getpid()
    async with ras_server(RasServer(status=status((0, own, 7), (1, 1, 6)))) as server:
        ranks = process(0, own, world_size=2), process(1, 1, world_size=2)
        session = job(server.port, *ranks, monkeypatch=monkeypatch)
        verdict = await triage.watch_until_sure(session, 0.5, lambda _: None)
    assert server.heard.count("VERBOSE STATUS") == 3
    assert len(session.state.ras) == 3
    assert verdict.outcome == "hung"
    assert verdict.findings[0].ranks == (1,), "it launched one less"


async def test_triage_of_a_job_that_moves_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ras_server(RasServer(status=status((0, os.getpid(), 7)))) as server:
        session = job(server.port, process(0, os.getpid(), world_size=1), monkeypatch=monkeypatch)
        monkeypatch.setattr(Progress, "stood_still", property(lambda _: 0.1, lambda _, value: None), raising=False)
        await triage.watch_until_sure(session, 0.5, lambda _: None)
    assert server.heard == []


async def test_a_ras_that_never_answers_is_waited_for_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "OPEN_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel accepts, and nobody answers
        session = job(listening.getsockname()[1], process(0, os.getpid(), world_size=1), monkeypatch=monkeypatch)
        async with asyncio.timeout(8):
            await triage.watch_until_sure(session, 0.5, lambda _: None)
    assert not session.state.ras


async def test_another_node_is_asked_where_the_first_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ras_server(RasServer(status=status((1, os.getpid(), 7)))) as server:
        session = job(server.port, process(1, os.getpid()), monkeypatch=monkeypatch)
        closed = process(0, 5, env={"NCCL_RAS_ADDR": "127.0.0.1:1"}, versions={"nccl": "2.30.7"})
        session.samples("node0", [hello(session.now()), closed, tick(session.now())])
        assert [rank.node for rank in asked_ranks(session.living())] == ["node0", "node1"]
        await session.job_sources.ras()
    assert session.state.ras
