"""Several jobs on the same nodes: triage judges the others, too, where nothing is wrong with the first."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hangtop.cli import triage as asked
from hangtop.cli.answer import Answer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.options import SessionOptions
from tests.support.jobs import ALL_REDUCE, MOVING, READING, Sketch


def two_jobs(port: int, others_port: int, *, hangs: bool) -> Job:
    """A job that moves or hangs, and beside it the processes of another run."""
    sketch = Sketch()
    sketch.ranks().at(ALL_REDUCE).process(master_port=port)
    if hangs:
        sketch.ranks(1).at(READING, syscall="read")
    else:
        sketch.ranks().at(ALL_REDUCE, READING).pulse(switches=40, cores=0.9)
        sketch.motion = MOVING
    made = sketch.job()
    others = tuple(
        replace(one, process=one.process._replace(pid=one.process.pid + 500, master_port=others_port, parent=77))
        for one in made.ranks
    )
    return replace(made, others=others)


Asked = list[tuple[str, str] | None]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The first job moves, the second hangs; what was asked about."""
    seen: Asked = []

    async def of_one_job(options: SessionOptions, watch: float, began: float, record: str | None = None) -> Answer:
        seen.append(options.job)
        job = two_jobs(29777, 29500, hangs=True) if options.job else two_jobs(29500, 29777, hangs=False)
        return Answer(diagnose(job), job, watch)

    monkeypatch.setattr(asked, "_of_one_job", of_one_job)
    return seen


def test_one_that_hangs_beside_one_that_moves_is_what_is_told(judged: Asked) -> None:
    answer = asyncio.run(asked.triage(SessionOptions(targets=("node1",)), 4.0, 0.0))
    assert judged == [None, ("MASTER_PORT", "29777")]
    assert (answer.verdict.outcome, answer.verdict.findings[0].ranks) == ("waiting", (1,))
    assert answer.verdict.summary.endswith("job there is healthy")
    assert not [one for one in answer.verdict.unknown if one.source == "another job"], "it was judged"
