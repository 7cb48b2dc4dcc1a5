"""Jobs of odd habits that no rule was written for: who hangs is named, and nothing healthy is accused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.batches import Batches
from tests.support.faulty import FaultyJob, Nurseries

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

STUCK = ("rank_stuck_in_code", "rank_stuck_in_data", "rank_stuck_on_lock", "rank_stuck_in_checkpoint")
HUNG: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "async_hook": (3, STUCK),
    "ckpt_thread": (0, STUCK),
    "child": (2, STUCK),
    "handler": (1, STUCK),
    "finalizer": (2, STUCK),
    "manifest": (1, STUCK),
    "queue": (0, STUCK),
    "store": (3, (*STUCK, "collective_mismatch")),
}
HEALTHY: Mapping[str, int] = {
    "garbage": -1, "loader": -1, "bursts": -1, "uneven": -1, "signals": -1, "nested_moves": -1, "async_moves": -1,
    "plain": -1, "saves": 0, "child_works": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(nursery: Nurseries) -> Batches:
    """The answer about every job."""
    who = {name: rank for name, (rank, _) in HUNG.items()} | dict(HEALTHY)

    def start(name: str) -> FaultyJob:
        return nursery.launch("odd.py", name, env={"HX_KIND": name, "HX_WHO": str(who[name])})

    def ready(name: str, job: FaultyJob) -> None:
        if who[name] >= 0:
            job.wait_for("struck", who[name])
        else:
            job.wait_for("moves")

    return Batches(nursery.cluster, list(who), start, ready, at_once=3)


@pytest.mark.parametrize("name", HUNG)
def test_who_hangs_is_named(answers: Batches, name: str) -> None:
    rank, kinds = HUNG[name]
    verdict, kind, ranks = answers[name].named()
    assert verdict in ("hung", "waiting"), "what it waits for may yet come"
    assert ranks == [rank], answers[name].data["summary"]
    assert kind in (*kinds, "waiting")


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_healthy_is_accused(answers: Batches, name: str) -> None:
    assert answers[name].alarms == [], answers[name].data["summary"]
