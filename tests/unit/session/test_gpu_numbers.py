"""Numbers of ranks that one parent spawned, by their GPUs and by the order of their start; none where in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuProcess, GpuProcesses
from collectors.samples.ranks import RankProcess
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello, process, tick

SPAWNED = "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle=%d)"


def nameless(pid: int, started: float, **fields: Any) -> RankProcess:
    given = {
        "local_rank": None, "world_size": None, "launcher": "", "master_port": None, "library": "torch", "parent": 900,
        "master_addr": "127.0.0.1", "command": SPAWNED % pid, "started": started,
    }  # fmt: skip
    return process(-1, pid, numbered_by="", **{**given, **fields})


def four(**fields: Any) -> list[RankProcess]:
    """Started by one parent one after another; pids have come round to the beginning in between."""
    return [nameless(pid, 500.0 + 0.1 * place, **fields) for place, pid in enumerate((31001, 31002, 301, 302))]


IN_ORDER = {31001: "00000000:1A:00.0", 31002: "00000000:3B:00.0", 301: "00000000:9A:00.0", 302: "00000000:BA:00.0"}


def on(gpus: Mapping[int, str], *more: GpuProcess) -> GpuProcesses:
    return GpuProcesses([*(GpuProcess(bus, pid, 1 << 30, None, "python") for pid, bus in gpus.items()), *more])


def seen(*samples: Any, elsewhere: RankProcess | None = None) -> Session:
    session = Session(SessionOptions(), clock=lambda: 1000.0)
    for node in ("node1", "node2"):
        session.link(LinkChange(node, "live", "", 1000.0))
        session.samples(node, [hello(1000.0), tick(1000.0)], 1)
    if elsewhere is not None:
        session.samples("node2", [elsewhere, tick(1000.0)], 1)
    session.samples("node1", [*samples, tick(1000.0)], 1)
    return session


def numbers(session: Session) -> list[int | None]:
    ranks = session.state.nodes["node1"].ranks
    return [ranks[pid].process.rank if ranks[pid].process.rank >= 0 else None for pid in IN_ORDER]


def test_they_are_numbered_where_gpus_and_starts_say_the_same() -> None:
    session = seen(*four(), on(IN_ORDER))
    assert numbers(session) == [0, 1, 2, 3]
    told = [change.text for change in session.state.changes if "is rank 2" in change.text]
    assert len(told) == 1
    assert told[0].endswith("by its GPU and its place among those started")
    session.samples("node1", [*four(stdout="/new"), tick(1000.0)], 1)  # facts of them come again, without a number
    assert numbers(session) == [0, 1, 2, 3]
    assert session.state.nodes["node1"].ranks[301].process.numbered_by == "gpus"


SWAPPED = {31001: IN_ORDER[31002], 31002: IN_ORDER[31001], 301: IN_ORDER[301], 302: IN_ORDER[302]}


@pytest.mark.parametrize(
    ("ranks", "gpus"),
    [
        (four(), on(SWAPPED)),
        (four(), on({pid: bus for pid, bus in IN_ORDER.items() if pid != 302})),
        (four(), on({**IN_ORDER, 302: IN_ORDER[301]})),
        (four(), on(IN_ORDER, GpuProcess(IN_ORDER[302], 301, 1, None, "python"))),
        (four(master_addr="10.0.0.1"), on(IN_ORDER)),
        (four(world_size=8), on(IN_ORDER)),
        (four(label="VLLM::Worker_TP1"), on(IN_ORDER)),
        (four(command="python train.py"), on(IN_ORDER)),
        ([*four()[:3], nameless(302, 500.3, parent=901)], on(IN_ORDER)),
        ([*four()[:3], four()[3]._replace(rank=3)], on(IN_ORDER)),
    ],
    ids=[
        "the GPUs in another order", "one on none", "two on one", "one on two", "a master elsewhere", "a larger world",
        "workers of a server", "not spawned", "two parents", "one says its number",
    ],
)  # fmt: skip
def test_any_doubt_leaves_them_without(ranks: list[RankProcess], gpus: GpuProcesses) -> None:
    assert numbers(seen(*ranks, gpus))[:3] == [None, None, None]


def test_a_job_that_has_ranks_on_another_node_is_none_of_this_one_alone() -> None:
    assert numbers(seen(*four(), on(IN_ORDER), elsewhere=nameless(5, 500.0))) == [None] * 4
