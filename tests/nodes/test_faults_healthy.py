"""Healthy jobs, fast and slow, that save and that compile: nothing is raised. And one that is merely slow."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.batches import Batches
from tests.support.faulty import FaultyJob, Nurseries

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

JOBS: Mapping[str, tuple[str, dict[str, str], str, int]] = {
    "fast": ("lm.py", {}, "moves", 0),
    "fast_trainer": ("vision.py", {}, "moves", 0),
    "fast_mesh": ("mesh.py", {}, "moves", 0),
    "steps_of_20_s": ("lm.py", {"HX_PAUSE": "20"}, "up", 0),
    "saves_for_30_s": ("lm.py", {"HX_FAULT": "slow_save", "HX_WHO": "0"}, "struck", 0),
    "compiles_for_30_s": ("vision.py", {"HX_FAULT": "trace", "HX_WHO": "2"}, "struck", 2),
    "slow_rank": ("vision.py", {"HX_FAULT": "slow", "HX_WHO": "2"}, "moves", 0),
}

MAY_WAIT = ("steps_of_20_s", "saves_for_30_s", "compiles_for_30_s")
"""Jobs in which no step ends while they are watched, and one rank may be at work for the others."""


@pytest.fixture(scope="module")
def answers(nursery: Nurseries) -> Batches:
    """The answer about every job."""

    def start(name: str) -> FaultyJob:
        program, env, _, _ = JOBS[name]
        return nursery.launch(program, name, env=env)

    def ready(name: str, job: FaultyJob) -> None:
        _, _, word, rank = JOBS[name]
        job.wait_for(word, rank)

    return Batches(nursery.cluster, list(JOBS), start, ready, at_once=2)


@pytest.mark.parametrize("name", [name for name in JOBS if name != "slow_rank"])
def test_raises_nothing(answers: Batches, name: str) -> None:
    answer = answers[name]
    assert answer.alarms == [], answer.data["summary"]
    if name in MAY_WAIT:  # who is waited for is told, and nobody is accused
        assert answer.verdict in ("healthy", "waiting", "starting", "unknown"), answer.data["summary"]
        return
    assert (answer.verdict, answer.status) == ("healthy", 0), (answer.data["summary"], answer.took)


def test_a_rank_ten_times_slower(answers: Batches) -> None:
    answer = answers["slow_rank"]
    assert answer.named() == ("slow", "straggler_rank", [2]), answer.data["summary"]
    assert "augment_again" in answer.data["summary"]
