"""Another job on the same nodes: nothing is said of how it is, and so that it is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.jobs import ALL_REDUCE, MOVING, READING, Sketch


def beside(**differs: Any) -> Sketch:
    """A job that moves, and its four processes once more, of another run."""
    job = Sketch()
    job.ranks().at(ALL_REDUCE, READING).pulse(switches=40, cores=0.9)
    job.motion = MOVING
    for one in job.job().ranks:
        own = one.process._replace(pid=one.process.pid + 500, command="python other.py", **{"parent": 77, **differs})
        job.others.append(replace(one, process=own))
    return job


@pytest.mark.parametrize(
    ("differs", "choice"),
    [
        ({"master_port": 29777}, "--job MASTER_PORT=29777"),
        ({"master_port": 29777, "run_id": "night"}, "--job TORCHELASTIC_RUN_ID=night"),
        ({"env": {"SLURM_JOB_ID": "4712"}, "run_id": "night"}, "--job SLURM_JOB_ID=4712"),
        ({"started": 1.0}, "--job KEY=VALUE"),
    ],
)
def test_another_job_is_told_with_what_chooses_it(differs: dict[str, Any], choice: str) -> None:
    verdict = beside(**differs).verdict()
    assert verdict.outcome == "healthy"
    (told,) = [one for one in verdict.unknown if one.source == "another job"]
    assert told.nodes == ("node1", "node2")
    assert choice in told.why
    assert "4 ranks of another run, not judged (python other.py)" in told.why


def test_what_an_earlier_run_left_is_no_other_job() -> None:
    verdict = beside(master_port=29777, adopted=True, launcher="torchrun").verdict()
    assert not [one for one in verdict.unknown if one.source == "another job"]
