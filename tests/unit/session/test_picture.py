"""The frozen picture: what is held, which processes are the job, which dumps are at hand."""

from __future__ import annotations

import pytest

from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import ProcessGone
from tests.support.made import gpu_row, process, pulse, tick
from tests.unit.session.test_unnumbered import Watched


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_value_that_did_not_change_is_held_as_of_the_last_tick(watched: Watched) -> None:
    watched.session.samples("node1", [process(0), pulse(1000, state="D"), gpu_row(0), tick(1000.0)])
    watched.now = 1030.0
    watched.session.samples("node1", [tick(1030.0)])
    job = watched.session.job()
    assert [look.at for look in job.ranks[0].looks] == [1000.0, 1030.0]
    assert job.ranks[0].looks[-1].value.state == "D"
    assert [look.at for look in job.nodes["node1"].gpus[0].looks] == [1000.0, 1030.0]


def test_a_rank_is_on_the_gpu_that_lists_its_pid(watched: Watched) -> None:
    facts = GpuFacts(5, "GPU-5", "00000000:5F:00.0", "H200", None, None, None, None, None)
    apps = GpuProcesses([GpuProcess("00000000:5F:00.0", 1002, None, None, "python")])
    watched.session.samples("node1", [process(2), facts, gpu_row(5), gpu_row(6), apps, tick(1000.0)])
    assert watched.session.job().ranks[0].gpus == (5,)


def _said(path: str, rank: int) -> LogEvent:
    return LogEvent("torch.taken_down", 999.0, rank, "node1", None, path, 1, "taken down", {})


@pytest.mark.parametrize("over", [False, True], ids=["beside it", "ended"])
def test_what_another_run_logs_is_no_word_of_the_job(watched: Watched, over: bool) -> None:
    other = [process(r, pid=50 + r, master_port=29400, stdout="/b.log", stderr="/all.log") for r in range(2)]
    job = [process(r, stdout="/a.log", stderr="/all.log") for r in range(3)]
    gone = [ProcessGone(50 + r, 999.5) for r in range(2)] if over else []
    words = [_said(path, 1) for path in ("/a.log", "/b.log", "/all.log", "dmesg")]
    watched.session.samples("node1", [*other, *job, *gone, *words, tick(1000.0)])
    told = watched.session.job()
    assert [r.process.pid for r in told.ranks] == [1000, 1001, 1002]
    assert [event.source for event in told.events] == ["/a.log", "/all.log", "dmesg"]
    assert len(told.event_nodes) == len(told.events)
