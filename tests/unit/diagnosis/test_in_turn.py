"""Ranks that save one after the other, each told by the store when it is its turn: a wait in C at their own line."""

from __future__ import annotations

from hangtop.diagnosis.job import Job
from tests.support.jobs import BARRIER, Sketch, kinds

TURN = ["save_in_turn save.py:12", "main train.py:40"]
STORE_WAIT = ["get_all /env/site-packages/torch/distributed/elastic/utils/store.py:60", *TURN]
SAVES = ["write_shards save.py:20", "save_in_turn save.py:14", "main train.py:40"]


def in_turn() -> Job:
    """Rank 0 has saved, rank 1 does, ranks 2 and 3 wait for their turn."""
    job = Sketch(watched=60.0, span=14.0, stood_still=14.0, patience=10.0)
    job.ranks().at(TURN, syscall="poll")
    job.ranks(0).at(BARRIER)
    job.ranks(1).at(SAVES, syscall="fsync", waiting_on="/data/rank1.pt").pulse(written=5e6, switches=20)
    return job.job()


def test_a_rank_that_nobody_looked_into_and_that_saves_is_no_stall() -> None:
    job = Sketch(watched=60.0, span=14.0, stood_still=14.0, patience=10.0)
    job.ranks().at(BARRIER)
    job.ranks(3).unread("timeout: py-spy did not come back")
    job.ranks(3).pulse(written=5e6, switches=20)
    assert "job_stalled" not in kinds(job.verdict())
