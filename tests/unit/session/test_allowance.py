"""One node that says too much costs itself, not the session, and not the other nodes."""

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuProcess, GpuProcesses
from collectors.samples.logs import CommProgress, LogFile
from collectors.samples.ranks import Helper
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.state import MOST_THINGS
from tests.support.made import hello, process, tick


def session() -> Session:
    made = Session(SessionOptions(), clock=lambda: 1000.0)
    for node in ("good", "bad"):
        made.link(LinkChange(node, "live", "", 1000.0))
        made.samples(node, [hello(1000.0), process(0), tick(1000.0, 1)])
    return made


def test_a_million_ranks_of_one_node_are_not_kept() -> None:
    made = session()
    for start in range(0, 40_000, 1000):
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
