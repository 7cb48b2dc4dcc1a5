"""When NCCL's RAS is asked by itself: of a job that stands still or may, never of one that is seen to move."""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from collectors.samples.ranks import RankProcess
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import JobMotion
from hangtop.session import deciding
from hangtop.session.motion.progress import Progress
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching.job_sources import doors
from tests.support.local_session import LocalSession, local_session
from tests.support.made import hello, process, tick
from tests.support.ras_server import RasServer, ras_server
from tests.unit.session.test_watcher import Feed


@pytest.mark.parametrize(("moving", "asked"), [(True, 0), (None, 1), (False, 1)])
async def test_a_job_that_moves_is_not_asked(monkeypatch: pytest.MonkeyPatch, moving: bool | None, asked: int) -> None:
    session = Session(SessionOptions(), feed=Feed())
    questions: list[float] = []

    async def ras() -> None:
        questions.append(session.now())

    monkeypatch.setattr(session.job_sources, "ras", ras)
    monkeypatch.setattr(type(session.progress), "motion", property(lambda _: JobMotion(moving=moving)))
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
    monkeypatch.setattr(Progress, "stood_still", property(lambda _: 30.0))
    monkeypatch.setattr(deciding, "RAS_GAP", 0.05)
    monkeypatch.setattr(deciding, "AT_LEAST_TO", 1.0)
    env, versions = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}, {"nccl": "2.30.7"}
    return local_session(*(rank._replace(env=env, versions=versions) for rank in ranks), read_only=True)


async def test_triage_asks_a_job_that_stands_still_until_its_counts_are_known_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = os.getpid()
    async with ras_server(RasServer(status=status((0, own, 7), (1, 1, 6)))) as server:
        ranks = process(0, own, world_size=2), process(1, 1, world_size=2)
        session = job(server.port, *ranks, monkeypatch=monkeypatch)
        verdict = await deciding.watch_until_sure(session, 0.5, lambda _: None)
    assert server.heard.count("VERBOSE STATUS") == 3
    assert len(session.state.ras) == 3
    assert verdict.outcome == "hung"
    assert verdict.findings[0].ranks == (1,), "it launched one less"


async def test_triage_of_a_job_that_moves_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ras_server(RasServer(status=status((0, os.getpid(), 7)))) as server:
        session = job(server.port, process(0, os.getpid(), world_size=1), monkeypatch=monkeypatch)
        monkeypatch.setattr(Progress, "stood_still", property(lambda _: 0.1))
        await deciding.watch_until_sure(session, 0.5, lambda _: None)
    assert server.heard == []


async def test_a_ras_that_never_answers_is_waited_for_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "RAS_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel accepts, and nobody answers
        session = job(listening.getsockname()[1], process(0, os.getpid(), world_size=1), monkeypatch=monkeypatch)
        async with asyncio.timeout(8):
            await deciding.watch_until_sure(session, 0.5, lambda _: None)
    assert not session.state.ras


async def test_another_node_is_asked_where_the_first_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ras_server(RasServer(status=status((1, os.getpid(), 7)))) as server:
        session = job(server.port, process(1, os.getpid()), monkeypatch=monkeypatch)
        closed = process(0, 5, env={"NCCL_RAS_ADDR": "127.0.0.1:1"}, versions={"nccl": "2.30.7"})
        session.samples("node0", [hello(session.now()), closed, tick(session.now())], 1)
        assert [rank.node for rank in doors(session.living())] == ["node0", "node1"]
        assert await session.job_sources.ras() is not None
    assert session.job_sources.ras_fault == ""


# --- numbers -----------------------------------------------------------------------------------------------------


def communicator(*members: tuple[int, str, int]) -> RasCommunicator:
    """Members are rank, host and pid."""
    ranks = [RasRank(rank, host, pid, 0, "running", 0, {}) for rank, host, pid in members]
    return RasCommunicator("0x1", len(ranks), ranks, "", "")


def report(*communicators: RasCommunicator) -> RasReport:
    return RasReport(1000.0, "node1", "2.30.7", list(communicators), [], True, 0.1)


def without_numbers(*places: tuple[str, int]) -> Session:
    session = Session(SessionOptions())
    for node, pid in places:
        session.link(LinkChange(node, "live", "", 1000.0))
        session.samples(node, [hello(1000.0, hostname=node), process(-1, pid, started=50.0), tick(1000.0)], 1)
    return session


PLACES = ("node1", 11), ("node1", 12), ("node2", 11), ("node2", 12)
WHOLE = communicator((0, "node1", 12), (1, "node1", 11), (2, "node2", 11), (3, "node2", 12))
PAIR = communicator((0, "node1", 12), (1, "node2", 12))
STRANGER = communicator(*((rank.rank, rank.host, rank.pid) for rank in WHOLE.ranks), (4, "node3", 9))


def numbers(session: Session) -> dict[tuple[str, int], int]:
    return {(rank.node, rank.process.pid): rank.process.rank for rank in session.living() if rank.process.rank >= 0}


@pytest.mark.parametrize("said", [(WHOLE,), (PAIR, WHOLE)])
def test_ras_tells_ranks_that_do_not_say_theirs(said: tuple[RasCommunicator, ...]) -> None:
    session = without_numbers(*PLACES)
    session.take_report(report(*said))
    assert numbers(session) == {("node1", 12): 0, ("node1", 11): 1, ("node2", 11): 2, ("node2", 12): 3}
    session.samples("node1", [process(-1, 11, started=50.0, cwd="/elsewhere")], 1)
    assert numbers(session)["node1", 11] == 1, "what the node does not know it does not take back"


@pytest.mark.parametrize("said", [(), (PAIR,), (PAIR, communicator((0, "node1", 11), (1, "node2", 11)))])
def test_a_place_in_a_part_of_the_job_is_no_number(said: tuple[RasCommunicator, ...]) -> None:
    session = without_numbers(*PLACES)
    session.take_report(report(*said))
    assert numbers(session) == {}


def test_of_a_job_of_which_a_part_is_seen_its_places_are_numbers() -> None:
    session = without_numbers(*PLACES[2:])
    session.take_report(report(STRANGER))
    assert numbers(session) == {("node2", 11): 2, ("node2", 12): 3}


def in_containers(session: Session, *addresses: str) -> None:
    """Looks at the processes, each of which has the pid 7 and an address of its own in its container."""
    for (node, rank), address in zip(((rank.node, rank) for rank in session.living()), addresses, strict=True):
        pid = rank.process.pid
        session.samples(node, [rank.process._replace(own_pid=7, rank=-1)], 1)
        looked = StackDump(pid, pid, 1000.0, "", "S", "", "", 0.0, "", [], addresses=[address] if address else [])
        session.stacks(node, [looked])


IN_PODS = communicator((0, "10.244.0.9", 7), (1, "10.244.0.8", 7), (2, "10.244.1.9", 7), (3, "10.244.1.8", 7))


def test_in_containers_ranks_are_told_apart_by_the_addresses_that_they_have_there() -> None:
    session = without_numbers(*PLACES)
    in_containers(session, "10.244.0.8", "10.244.0.9", "10.244.1.8", "10.244.1.9")
    session.take_report(report(IN_PODS))
    assert numbers(session) == {("node1", 11): 1, ("node1", 12): 0, ("node2", 11): 3, ("node2", 12): 2}


def test_in_containers_of_unknown_or_equal_addresses_nobody_is_numbered() -> None:
    for addresses in (("10.244.0.8", "10.244.0.9", "10.244.1.8", ""), ("10.244.0.8",) * 4):
        session = without_numbers(*PLACES)
        in_containers(session, *addresses)
        session.take_report(report(IN_PODS))
        assert numbers(session) == {}
