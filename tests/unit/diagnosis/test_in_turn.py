"""Ranks that save one after the other, each told by the store when it is its turn: a wait in C at their own line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.diagnosis.waits.native import native_wanted
from tests.support.jobs import BARRIER, NOW, Sketch, first, frame, kinds
from tests.unit.diagnosis.test_own_gpu import COMPUTE, EMPTY, with_gpus

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


def test_native_frames_tell_that_it_is_a_store_and_the_one_that_saves_is_waited_for() -> None:
    job = in_turn()
    assert set(native_wanted(job)) & {2, 3}
    own = next(dump for dump in reversed(job.stacks) if dump.pid == 1002)
    inner = [frame(f"{name} libtorch_cpu.so:0")._replace(native=True) for name in ("__poll", "c10d::TCPStore::wait")]
    threads = [own.threads[0]._replace(frames=[*inner, *own.threads[0].frames])]
    native = own._replace(method="native", at=NOW - 0.01, threads=threads)
    told = replace(job, stacks=(*job.stacks, native), stack_nodes=(*job.stack_nodes, "node2"))
    found = first(diagnose(told))
    assert (found.kind, found.ranks) == ("waiting", (1,))
    assert diagnose(told).outcome == "healthy"


def test_who_saves_since_it_was_looked_at_is_at_the_store_no_more() -> None:
    job = Sketch(watched=60.0, span=14.0, stood_still=14.0, patience=10.0)
    job.ranks().at(STORE_WAIT, syscall="poll")
    job.ranks(0, 1).at(BARRIER)
    assert first(job.verdict()).severity == "critical"
    job.ranks(2).pulse(written=5e6, switches=20)
    assert job.verdict().outcome == "healthy"


def test_a_rank_that_nobody_looked_into_and_that_saves_is_no_stall() -> None:
    job = Sketch(watched=60.0, span=14.0, stood_still=14.0, patience=10.0)
    job.ranks().at(BARRIER)
    job.ranks(3).unread("timeout: py-spy did not come back")
    job.ranks(3).pulse(written=5e6, switches=20)
    assert "job_stalled" not in kinds(job.verdict())


@pytest.mark.parametrize(("row", "outcome"), [(COMPUTE, "healthy"), (EMPTY, "starting")])
def test_who_waits_at_a_store_while_the_gpus_of_others_compute_is_in_no_start(
    row: dict[str, float], outcome: str
) -> None:
    """Halves of a job evaluate in turns, minutes after it began."""
    job = with_gpus(Sketch(age=60.0, watched=4.0, stood_still=1.0, patience=60.0), row, row, EMPTY, EMPTY)
    job.ranks().at(STORE_WAIT, syscall="poll")
    job.ranks(0, 1).at(["evaluate eval.py:9", "main train.py:40"], state="R").pulse(cores=1.0)
    assert job.verdict().outcome == outcome
