"""The job's own sources: dumps from the nodes' disks, and RAS through the connection, about this job alone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import TransportError
from collectors.formats import flight_recorder
from collectors.node.nccl.ras import connect
from collectors.node.processes.procfs import read_stat
from collectors.probes import ras
from collectors.probes.recorder import Dump
from collectors.probes.stacks import DumpRequest
from collectors.samples.collectives import RasReport
from collectors.samples.logs import CommProgress
from collectors.samples.ranks import RankProcess
from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.node import Rank
from hangtop.session.intake import ANSWER_SEEN
from hangtop.session.motion.progress import ProgressClock
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching import job_sources, triage, watcher
from hangtop.session.watching.job_sources import JobSources, about, has_safe_ras
from tests.support.here import here
from tests.support.local_session import LocalSession, local_session
from tests.support.made import hello, process, stack, tick
from tests.support.ras_server import RasServer, ras_server
from tests.unit.session.test_watcher import MovedSession


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


async def answer(text: str) -> RasReport:
    async with ras_server(RasServer(status=text)) as server:
        return await ras.ask(here(), os.getpid(), ("127.0.0.1", server.port), 5.0)


async def test_an_answer_in_json() -> None:
    report = await answer(status((0, 77, 12)))
    assert report.communicators[0].ranks[0].counts == {"AllReduce": 12}


async def test_nonsense_is_an_error() -> None:
    with pytest.raises(TransportError, match="RAS socket"):
        await answer("nothing of the kind\n")


ELSEWHERE = "192.0.2.1"  # of TEST-NET-1: nobody's


async def test_where_nobody_listens_and_no_other_machine_whatever_the_job_names() -> None:
    for where, why in ((("127.0.0.1", 1), "refused"), ((ELSEWHERE, 28028), "192.0.2.1 is no address of this machine")):
        with pytest.raises(TransportError, match=why):
            await ras.ask(here(), os.getpid(), where, 5.0)


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_listener_of_another_user_is_not_connected_to() -> None:
    serve = "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    words = [sys.executable, "-c", f"import os, socket; os.setuid(65534); {serve}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        port = int(stranger.stdout.readline())
        with pytest.raises(PermissionError, match=f"port {port} is listened on by uid 65534"):
            connect(os.getpid(), "127.0.0.1", port, 5.0)
        connect(stranger.pid, "127.0.0.1", port, 5.0).close()
        stranger.kill()


def test_what_has_the_rank_s_pid_by_now_lends_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = read_stat("/proc", os.getpid())
    assert stat is not None
    seen = iter([stat, stat._replace(start_ticks=stat.start_ticks + 1)])
    monkeypatch.setattr("collectors.node.nccl.ras.read_stat", lambda _proc, _pid: next(seen))
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(ProcessLookupError, match="has ended"):
        connect(os.getpid(), "127.0.0.1", listening.getsockname()[1], 5.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0"])
def test_addresses_of_this_machine_are_its_own(host: str) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listening:
        near = connect(os.getpid(), host, listening.getsockname()[1], 5.0)
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
    report = await answer(status((0, 77, 12)))
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


@pytest.mark.parametrize("fails", [False, True])
async def test_ranks_answer_from_the_question_until_their_samples_have_told_of_it(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    session = local_session(process(0, os.getpid()))
    (rank,) = session.living()
    seen: list[float] = []

    async def asked(*_: Any, fresh: bool) -> Sequence[Dump]:
        seen.append(rank.answers_until)
        if fails:
            raise TransportError("it is gone")
        return []

    monkeypatch.setattr("collectors.probes.recorder.fetch", asked)
    asking = JobSources(session)
    await asking.recorders()
    assert (seen[0], rank.answers_until) == (-inf, -inf), (
        "what lies on a disk is read, and the rank does nothing for it"
    )
    before = session.now()
    await asking.recorders(fresh=True)
    assert seen[1] == inf
    assert before + ANSWER_SEEN <= rank.answers_until < inf


@pytest.mark.parametrize(
    ("read_only", "unasked", "pauses"), [(False, False, True), (False, True, False), (True, False, False)]
)
async def test_only_a_look_that_was_asked_for_may_pause_a_rank_and_none_of_a_read_only_session(
    monkeypatch: pytest.MonkeyPatch, read_only: bool, unasked: bool, pauses: bool
) -> None:
    requests = []

    async def dump(_: object, __: object, request: DumpRequest, **_kwargs: object) -> list[StackDump]:
        requests.append(request)
        return []

    monkeypatch.setattr("collectors.probes.stacks.dump", dump)
    await JobSources(local_session(process(0, os.getpid()), read_only=read_only)).stacks(None, unasked=unasked)
    assert [request.blocking for request in requests] == [pauses]


# --- when RAS is asked by itself: never of a job that is seen to move, or that may create communicators ---------------

WAITS, INITS = "all_reduce", "init_process_group"


@pytest.mark.parametrize(
    ("moving", "launched", "frames", "read_only", "asked"),
    [
        (True, 7, (WAITS, WAITS), False, 0),
        (None, 7, (), False, 1),
        (False, 7, (), False, 1),
        (False, 7, (), True, 0),
        (False, 0, (), False, 0),
        (False, 0, (WAITS, WAITS), False, 1),
        (False, 0, (WAITS, INITS), False, 0),
        (False, 7, (INITS,), False, 0),
    ],
)
async def test_who_is_asked(
    monkeypatch: pytest.MonkeyPatch, moving: bool | None, launched: int, frames: Sequence[str],
    read_only: bool, asked: int,
) -> None:  # fmt: skip
    session = MovedSession(SessionOptions(read_only=read_only))
    session.link(LinkChange("node1", "live", "", 1000.0))
    ranks = [process(rank, world_size=2, versions={"nccl": "2.29.7"}) for rank in range(2)]
    count = CommProgress("0x1", 0, 2, 0, "node1", 1000, "AllReduce", 1, "f", launched, launched, 999.0, "s", 1)
    session.samples("node1", [hello(1000.0), *ranks, *[count] * bool(launched), tick(1000.0)])
    for rank, name in enumerate(frames):
        call = Frame(name, "/x/torch/distributed/distributed_c10d.py", 9, native=False)
        thread = ThreadStack(1, 1, "MainThread", active=False, owns_gil=False, frames=[call])
        session.stacks("node1", [stack(1000 + rank, at=1000.0)._replace(threads=[thread])])
    questions: list[float] = []

    async def ras() -> None:
        questions.append(session.now())

    monkeypatch.setattr(session.job_sources, "ras", ras)
    moves = property(lambda _: JobMotion(moving=moving), lambda _, value: None)
    monkeypatch.setattr(type(session.progress), "motion", moves, raising=False)
    monkeypatch.setattr(ProgressClock, "stood_still", property(lambda _: 30.0, lambda _, value: None), raising=False)
    await session.watcher.step()
    await asyncio.sleep(0)
    assert len(questions) == asked
    await session.close()


def job(port: int, *ranks: RankProcess, monkeypatch: pytest.MonkeyPatch) -> LocalSession:
    """Ranks on this machine whose NCCL has RAS at this port, and whose job stands still."""
    monkeypatch.setattr(ProgressClock, "stood_still", property(lambda _: 30.0, lambda _, value: None), raising=False)
    monkeypatch.setattr(job_sources, "RAS_GAP", 0.05)
    monkeypatch.setattr(triage, "AT_LEAST_TO", 1.0)
    monkeypatch.setattr(triage, "AT_MOST", 1.0)
    env, versions = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}, {"nccl": "2.30.7"}
    monkeypatch.setattr(JobSources, "stacks", no_answer)
    monkeypatch.setattr(JobSources, "recorders", no_answer)
    session = local_session(*(rank._replace(env=env, versions=versions) for rank in ranks))
    pid, at = ranks[0].pid, session.now()
    session.samples("node1", [CommProgress("0x1", 0, 2, 0, "n", pid, "AllReduce", 1, "f", 7, 7, at, "s", 1), tick(at)])
    return session


async def no_answer(*_: object, **__: object) -> list[object]:
    return []


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
        monkeypatch.setattr(ProgressClock, "stood_still", property(lambda _: 0.1, lambda _, value: None), raising=False)
        await triage.watch_until_sure(session, 0.5, lambda _: None)
    assert server.heard == []


async def test_a_ras_that_never_answers_is_waited_for_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "OPEN_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel accepts, and nobody answers
        session = job(listening.getsockname()[1], process(0, os.getpid(), world_size=1), monkeypatch=monkeypatch)
        async with asyncio.timeout(8):
            await triage.watch_until_sure(session, 0.5, lambda _: None)
    assert not session.state.ras
