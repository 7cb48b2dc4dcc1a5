"""A picture of a job is freed with its last reader: what holds itself stays until Python looks for cycles."""

from __future__ import annotations

import gc

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.screens import Paper


def pictures() -> int:
    return sum(type(one) is Job for one in gc.get_objects())


def test_a_judged_picture_holds_nothing_that_holds_it() -> None:
    session = Paper(nodes=4, gpus=2).session(ticks=4)
    gc.collect()
    gc.disable()
    try:
        before = pictures()
        job = session.job_of(session.snapshot())
        diagnose(job)
        assert pictures() == before + 1
        del job
        assert pictures() == before
    finally:
        gc.enable()
