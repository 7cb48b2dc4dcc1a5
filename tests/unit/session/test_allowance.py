"""One node that says too much costs itself, not the session, and not the other nodes."""

from __future__ import annotations

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuProcess, GpuProcesses
from collectors.samples.logs import CommProgress, LogEvent, LogFile
from collectors.samples.ranks import Helper
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.state import MEMORY, MOST_THINGS, JobState
from tests.support.made import hello, process, tick


def session() -> Session:
    made = Session(SessionOptions(), clock=lambda: 1000.0)
    for node in ("good", "bad"):
        made.link(LinkChange(node, "live", "", 1000.0))
        made.samples(node, [hello(1000.0), process(0), tick(1000.0, 1)])
    return made


def test_thousands_of_ranks_of_one_node_are_not_kept() -> None:
    made = session()
    for start in range(0, 6_000, 1000):
        made.samples("bad", [process(n)._replace(pid=n + 5000) for n in range(start, start + 1000)])
    bad, good = made.state.nodes["bad"], made.state.nodes["good"]
    assert len(bad.ranks) <= MOST_THINGS
    assert bad.link == "limited"
    assert "ranks beyond 4,096" in bad.why
    assert (good.link, len(good.ranks)) == ("live", 1)


def test_files_processes_and_communicators_are_bounded() -> None:
    made = session()
    made.samples("bad", [LogFile(f"/{n}", str(n), None, None, "extra", 0, "", "") for n in range(5000)])
    made.samples("bad", [GpuProcesses([GpuProcess("0", n, None, None, "x") for n in range(5000)])])
    rank = next(iter(made.state.nodes["bad"].ranks))
    made.samples("bad", [Helper(n, rank, "helper", "S", "", 0, "") for n in range(5000)])
    blank = CommProgress("c", 0, 1, None, "h", 1, "AllReduce", 1, "f", 1, 1, None, "s", 1)
    made.samples("bad", [blank._replace(comm=str(n)) for n in range(70_000)])
    bad = made.state.nodes["bad"]
    assert len(bad.log_files) == MOST_THINGS
    assert len(bad.gpu_processes) == 1024
    assert len(bad.ranks[rank].helpers) == 1024
    assert len(made.state.progress) == 65_536
    made.samples("good", [blank])
    assert ("good", "c", 0) in made.state.progress


def test_an_ordinary_node_is_not_limited() -> None:
    made = session()
    made.samples("good", [process(n)._replace(pid=n + 1) for n in range(64)])
    assert made.state.nodes["good"].link == "live"


# --- what happened is kept by kind, and what nodes said by node ---------------------------------------------------


MOST = MEMORY // 1000


def test_many_of_one_kind_push_out_none_of_another_and_are_bounded_themselves() -> None:
    state = JobState()
    changes = state.changes
    state.note(0.0, "rank 3 holds up 7", "hung", "")
    state.note(1.0, "lost: cut", "lost", "node2")
    for number in range(MOST):
        state.note(2.0 + number, f"rank {number} started", "started", "node1")
        state.note(2.0 + number, "samples late", "late", "node1")
    kept = [change for _, change in changes]
    assert [change.kind for change in kept[:2]] == ["hung", "lost"]
    assert MOST // 2 < len(kept) == len(changes) <= MOST
    assert kept == sorted(kept, key=lambda change: change.at)
    assert [change for _, change in changes.since(changes.total - 3)] == kept[-3:]
    assert changes.since(changes.total) == []
    assert [change for _, change in reversed(changes)] == kept[::-1]


def test_one_node_cannot_push_out_what_others_said() -> None:
    def event(number: int, text: str = "x") -> LogEvent:
        return LogEvent("nccl.warn", 1000.0, 0, "", 1, "log", number, text, {})

    events = JobState().events
    events.add("good", event(1, "the cause"))
    for number in range(60_000):
        events.add("bad", event(number))
    assert ("good", event(1, "the cause")) in events
    assert len(events) <= MEMORY // 1000
    assert [*events][-1] == ("bad", event(59_999))
    assert events.total == 60_001
