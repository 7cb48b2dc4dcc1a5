"""A main thread that waits for a pool of threads waits for what that pool does, whatever else sleeps beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, Sketch, first
from tests.support.stacks import SCRIPT, STDLIB, dump, thread

ITEM = (f"_WorkItem.run {STDLIB}/concurrent/futures/thread.py:58", f"_worker {STDLIB}/concurrent/futures/thread.py:83")
STARTED = (f"Thread.run {STDLIB}/threading.py:982", f"Thread._bootstrap {STDLIB}/threading.py:1002")
TRACKER = thread(f"Tracker.run {SCRIPT}:36", *STARTED, name="tracker", tid=102)
SHUTDOWN = (
    f"Thread.join {STDLIB}/threading.py:1119",
    f"ThreadPoolExecutor.shutdown {STDLIB}/concurrent/futures/thread.py:235",
)
RESULT = (f"Condition.wait {STDLIB}/threading.py:327", f"Future.result {STDLIB}/concurrent/futures/_base.py:451")


def main(*waits: str) -> tuple[str, ...]:
    """A main thread that waits so in its loop."""
    return (*waits, f"Trainer.loop {SCRIPT}:87", f"<module> {SCRIPT}:113")


@pytest.mark.parametrize("waits", [SHUTDOWN, RESULT], ids=["its end", "a future"])
def test_a_thread_beside_the_pool_is_not_what_it_waits_for(waits: tuple[str, ...]) -> None:
    in_c = thread(*ITEM, *STARTED, name="saver_0", tid=101)
    told = activity([dump(thread(*main(*waits)), in_c, TRACKER)])
    assert (told.kind, told.where, told.holder) == ("lock", "Trainer.loop (train.py:87)", None)


def test_what_the_pool_does_is_what_it_waits_for() -> None:
    saves = thread(f"Saver.write {SCRIPT}:20", *ITEM, *STARTED, name="saver_0", tid=101)
    told = activity([dump(thread(*main(*SHUTDOWN)), saves, TRACKER)])
    assert told.where == "Saver.write (train.py:20)"


def test_a_thread_that_is_judged_is_not_missed() -> None:
    """The others' main threads wait in a collective, beside a tracker; this one's for the tracker."""
    job = Sketch(stood_still=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).at(["join /usr/lib/python3.11/threading.py:1119", "loop train.py:87"], syscall="futex")
    made = job.job()
    stacks = tuple(each._replace(threads=[*each.threads, TRACKER]) for each in made.stacks)
    assert "has no thread" not in first(diagnose(replace(made, stacks=stacks))).summary
