"""Another job on the same nodes: nothing is said of how it is, and so that it is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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


def test_another_job_is_told_with_what_chooses_it() -> None:
    verdict = beside(master_port=29777).verdict()
    assert verdict.outcome == "healthy"
    (told,) = [one for one in verdict.unknown if one.source == "another job"]
    assert told.nodes == ("node1", "node2")
    assert told.why == "4 ranks of another run, not judged (python other.py): --job MASTER_PORT=29777 chooses it"


def test_what_an_earlier_run_left_is_no_other_job() -> None:
    verdict = beside(master_port=29777, adopted=True, launcher="torchrun").verdict()
    assert not [one for one in verdict.unknown if one.source == "another job"]
