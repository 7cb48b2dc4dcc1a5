"""The picture of a job and the verdict on it: what is held, and processes that say no rank."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import ProcessGone, RankProcess
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.unnumbered import Unnumbered
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.diagnosis.waits.job_status import status_of_job
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import gpu_row, hello, process, pulse, tick
from tests.support.stacks import dump, thread

SPAWNED = "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle=%d)"
TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def nameless(pid: int, **fields: Any) -> RankProcess:
    given = {"local_rank": None, "world_size": None, "launcher": "", "master_port": None, "library": "torch"}
    return process(-1, pid, **{**given, "command": SPAWNED % pid, **fields})


def pids(ranks: tuple[Rank, ...]) -> list[int]:
    return sorted(rank.process.pid for rank in ranks)


class Watched:
    """A session of one node without a feed, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.session = Session(SessionOptions(patience=5.0), clock=lambda: self.now)
        self.session.link(LinkChange("node1", "live", "", self.now))
        self.session.samples("node1", [hello(self.now), tick(self.now)])

    def pass_by(self, seconds: int, **moves: int) -> None:
        """Let time pass; ``moves`` are the switches a second of processes by ``p<pid>``, of all others none."""
        for _ in range(seconds):
            self.now += 1.0
            pulses = [
                pulse(pid, voluntary_switches=int(moves.get(f"p{pid}", 0) * self.now))
                for pid in self.session.state.nodes["node1"].ranks
            ]
            self.session.samples("node1", [*pulses, tick(self.now)])
            self.session.tick()

    def stacks(self, *dumps: StackDump) -> None:
        self.session.stacks("node1", list(dumps))

    def verdict(self) -> Verdict:
        return diagnose(self.session.job())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def waits(pid: int, at: float) -> StackDump:
    return dump(thread(f"all_reduce {TORCH}:10", f"wrapper {TORCH}:11", "train /job/train.py:12"), pid=pid, at=at)


def reads(pid: int, at: float) -> StackDump:
    return dump(thread("read_shard /job/data.py:10", "train /job/train.py:11"), pid=pid, at=at, syscall="")


def idles(pid: int, at: float) -> StackDump:
    return dump(thread("select /lib/selectors.py:10", "main /x/ipykernel.py:11"), pid=pid, at=at, syscall="")


def looked_at(watched: Watched, *looks: Any) -> None:
    """Twenty seconds without a motion, and two looks at the stacks."""
    watched.pass_by(20)
    for _ in range(2):
        watched.stacks(*[look(pid, watched.now) for pid, look in looks])
        watched.pass_by(2)


def test_one_that_is_stuck_is_named_by_host_and_pid(watched: Watched) -> None:
    watched.session.samples("node1", [nameless(pid) for pid in (51, 52, 53)])
    looked_at(watched, (51, waits), (52, reads), (53, waits))
    verdict = watched.verdict()
    assert verdict.outcome == "hung"
    assert verdict.findings[0].ranks == (Unnumbered("node1", 52),)
    assert "process 52 on node1" in verdict.summary
    assert "on node1 on node1" not in verdict.summary
    assert "rank -" not in str(verdict)


def test_a_number_that_comes_later_is_taken_up_by_the_same_process(watched: Watched) -> None:
    watched.session.samples("node1", [nameless(51)])
    watched.pass_by(3)
    watched.session.samples("node1", [nameless(51)._replace(rank=3)])
    (rank,) = watched.session.job().ranks
    assert (rank.rank, len(rank.pulses) >= 3) == (3, True)
    assert "process 51 on node1 is rank 3" in [change.text for _, change in watched.session.state.changes]


def test_idle_notebooks_and_servers_are_listed_and_not_judged(watched: Watched) -> None:
    notebook = nameless(51, command="python -m ipykernel_launcher -f kernel.json", user="ann", uid=1000)
    watched.session.samples("node1", [notebook])
    looked_at(watched, (51, idles))
    job = watched.session.job()
    assert pids(job.unnumbered) == [51]
    assert not status_of_job(job).statuses
    assert not [finding for finding in watched.verdict().findings if finding.severity != "info"]


def test_an_idle_notebook_beside_a_job_that_hangs_is_not_accused(watched: Watched) -> None:
    ranks = [process(rank, 51 + rank, world_size=3) for rank in range(3)]
    notebook = nameless(60, command="python -m ipykernel_launcher -f kernel.json", user="ann", uid=1000)
    watched.session.samples("node1", [*ranks, notebook])
    looked_at(watched, (51, waits), (52, reads), (53, waits), (60, reads))
    job = watched.session.job()
    assert (pids(job.ranks), pids(job.bystanders), job.others) == ([51, 52, 53], [60], ())
    verdict = watched.verdict()
    assert (verdict.outcome, verdict.findings[0].ranks) == ("hung", (1,))
    assert [rank.process.pid for rank in watched.session.living()] == [51, 52, 53]


# --- the frozen picture: what is held, which processes are the job ------------------------------------------------


def test_a_value_that_did_not_change_is_held_as_of_the_last_tick(watched: Watched) -> None:
    watched.session.samples("node1", [process(0), pulse(1000, state="D"), gpu_row(0), tick(1000.0)])
    watched.now = 1030.0
    watched.session.samples("node1", [tick(1030.0)])
    job = watched.session.job()
    assert [look.at for look in job.ranks[0].pulses] == [1000.0, 1030.0]
    assert job.ranks[0].pulses[-1].value.state == "D"
    assert [look.at for look in job.nodes["node1"].gpus[0].samples] == [1000.0, 1030.0]


def test_a_rank_is_on_the_gpu_that_lists_its_pid(watched: Watched) -> None:
    facts = GpuFacts(5, "GPU-5", "00000000:5F:00.0", "H200", None, None, None, None, None)
    apps = GpuProcesses([GpuProcess("00000000:5F:00.0", 1002, None, None, "python")])
    watched.session.samples("node1", [process(2), facts, gpu_row(5), gpu_row(6), apps, tick(1000.0)])
    assert watched.session.job().ranks[0].gpus == (5,)


@pytest.mark.parametrize("over", [False, True], ids=["beside it", "ended"])
def test_what_another_run_logs_is_no_word_of_the_job(watched: Watched, over: bool) -> None:
    other = [process(r, pid=50 + r, master_port=29400, stdout="/b.log", stderr="/all.log") for r in range(2)]
    job = [process(r, stdout="/a.log", stderr="/all.log") for r in range(3)]
    gone = [ProcessGone(50 + r, 999.5) for r in range(2)] if over else []
    paths = ("/a.log", "/b.log", "/all.log", "dmesg")
    words = [LogEvent("torch.taken_down", 999.0, 1, "node1", None, path, 1, "taken down", {}) for path in paths]
    watched.session.samples("node1", [*other, *job, *gone, *words, tick(1000.0)])
    told = watched.session.job()
    assert [r.process.pid for r in told.ranks] == [1000, 1001, 1002]
    assert [event.source for event in told.events] == ["/a.log", "/all.log", "dmesg"]
    assert len(told.event_nodes) == len(told.events)
