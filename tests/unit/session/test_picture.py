"""The frozen picture: what is held, which processes are the job, which dumps are at hand."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import RankGone
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.session.job_selection import select_job
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import gpu_row, hello, process, pulse, tick


class Watched:
    """A session without a feed, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.session = Session(SessionOptions(), clock=lambda: self.now)
        self.session.link(LinkChange("node1", "live", "", self.now))
        self.session.samples("node1", [hello(self.now), tick(self.now)])

    def job(self) -> Job:
        return self.session.job()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_value_that_did_not_change_is_held_as_of_the_last_tick(watched: Watched) -> None:
    watched.session.samples("node1", [process(0), pulse(1000, state="D"), gpu_row(0), tick(1000.0)])
    watched.now = 1030.0
    watched.session.samples("node1", [tick(1030.0)])
    job = watched.job()
    assert [look.at for look in job.ranks[0].looks] == [1000.0, 1030.0]
    assert job.ranks[0].looks[-1].value.state == "D"
    assert [look.at for look in job.nodes["node1"].gpus[0].looks] == [1000.0, 1030.0]


def test_a_rank_is_on_the_gpu_that_lists_its_pid(watched: Watched) -> None:
    facts = GpuFacts(5, "GPU-5", "00000000:5F:00.0", "H200", "590", None, None, None, None, None, "")
    apps = GpuProcesses([GpuProcess("00000000:5F:00.0", 1002, None, None, "python")])
    watched.session.samples("node1", [process(2), facts, gpu_row(5), gpu_row(6), apps, tick(1000.0)])
    assert watched.job().ranks[0].gpus == (5,)


def _rank(rank: int, *, gone_at: float | None = None, node: str = "node1", **fields: Any) -> Rank:
    return Rank(node, process(rank, **fields), gone_at=gone_at)


def test_the_newest_process_of_each_rank_is_the_job() -> None:
    old = [_rank(r, pid=10 + r, gone_at=90.0) for r in range(2)]
    new = [_rank(r, pid=20 + r, started=100.0) for r in range(2)]
    ranks, others, *_ = select_job([*old, *new])
    assert [r.process.pid for r in ranks] == [20, 21]
    assert others == ()


def test_a_rank_that_died_is_still_a_rank_of_the_job() -> None:
    ranks, *_ = select_job([_rank(0), _rank(1, gone_at=90.0)])
    assert [(r.rank, r.gone_at) for r in ranks] == [(0, None), (1, 90.0)]


def test_living_orphans_of_an_earlier_run_are_others() -> None:
    orphans = [_rank(r, pid=10 + r, master_port=29400) for r in (1, 3)]
    job = [_rank(r, pid=20 + r, started=100.0) for r in range(4)]
    ranks, others, *_ = select_job([*orphans, *job])
    assert [r.process.pid for r in ranks] == [20, 21, 22, 23]
    assert [r.process.pid for r in others] == [11, 13]


def test_two_jobs_are_told_apart_and_the_larger_is_the_job() -> None:
    small = [_rank(r, pid=10 + r, env={"SLURM_JOB_ID": "1"}, world_size=2, started=200.0) for r in range(2)]
    large = [_rank(r, pid=20 + r, env={"SLURM_JOB_ID": "2"}) for r in range(4)]
    ranks, others, *_ = select_job([*small, *large])
    assert [r.process.pid for r in ranks] == [20, 21, 22, 23]
    assert len(others) == 2


def test_ranks_that_rendezvous_elsewhere_are_another_job_though_no_rank_is_claimed_twice() -> None:
    rest = [_rank(r, pid=10 + r, master_port=29600) for r in (2, 3)]
    job = [_rank(r, pid=20 + r, started=100.0) for r in (0, 1)]
    ranks, others, *_ = select_job([*rest, *job])
    assert [r.process.pid for r in ranks] == [20, 21]
    assert [r.process.pid for r in others] == [12, 13]


def test_a_run_that_was_over_when_the_job_began_lends_it_no_rank() -> None:
    """None of its ranks had the number of the only one that has come so far."""
    before = [_rank(r, pid=10 + r, run_id="a", world_size=6, gone_at=90.0) for r in range(1, 6)]
    job = [_rank(0, pid=20, run_id="b", world_size=3, started=95.0)]
    parted = select_job([*before, *job])
    assert [r.process.pid for r in parted.ranks] == [20]
    assert [r.rank for r in parted.ended] == [1, 2, 3, 4, 5]
    over = [_rank(0, pid=20, run_id="b", world_size=3, started=95.0, gone_at=99.0)]
    assert [r.process.pid for r in select_job([*before, *over]).ranks] == [20], "nor once that is over, too"
    again = [_rank(r, pid=10 + r, run_id="b", master_port=29400, gone_at=90.0) for r in (1, 2)]
    assert len(select_job([*again, *job]).ranks) == 3, "the launcher of the run starts its ranks anew"


def test_a_rank_that_looked_for_another_master_and_is_gone_is_of_the_job() -> None:
    parted = select_job([_rank(0), _rank(1, master_port=29501, gone_at=90.0), _rank(2)])
    assert [r.rank for r in parted.ranks] == [0, 1, 2]
    assert parted.ended == ()


def _said(path: str, rank: int) -> LogEvent:
    return LogEvent("torch.taken_down", 999.0, rank, "node1", None, path, 1, "taken down", {})


@pytest.mark.parametrize("over", [False, True], ids=["beside it", "ended"])
def test_what_another_run_logs_is_no_word_of_the_job(watched: Watched, over: bool) -> None:
    other = [process(r, pid=50 + r, master_port=29400, stdout="/b.log", stderr="/all.log") for r in range(2)]
    job = [process(r, stdout="/a.log", stderr="/all.log") for r in range(3)]
    gone = [RankGone(50 + r, r, 999.5) for r in range(2)] if over else []
    words = [_said(path, 1) for path in ("/a.log", "/b.log", "/all.log", "dmesg")]
    watched.session.samples("node1", [*other, *job, *gone, *words, tick(1000.0)])
    told = watched.job()
    assert [r.process.pid for r in told.ranks] == [1000, 1001, 1002]
    assert [event.source for event in told.events] == ["/a.log", "/all.log", "dmesg"]
    assert len(told.event_nodes) == len(told.events)
