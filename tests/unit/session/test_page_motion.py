"""A page's step numbers as proof that the job moves: a real page, read as the node side reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from collectors.node.processes.pages import PageSource
from collectors.node.source import Shared
from hangtop.inside import page as pages
from hangtop.inside.page import OwnRank, Page
from tests.support.made import process
from tests.support.pulses import Job, spins

PID = 1000
"""Rank 0 of the job, for which this process speaks."""


class Told:
    """The page of this process, as that of rank 0 of a job."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job = Job()
        self.page = Page(OwnRank(0, 4, 0))
        monkeypatch.setattr(pages, "now", lambda: self.job.now)
        shared = Shared()
        shared.ranks = (process(0, os.getpid(), uid=os.getuid()),)
        self._source = PageSource(shared)

    def seconds(self, count: int, number: Callable[[int], int] | None) -> None:
        """Let so many go by; in each one the rank says ``number(second)``, and the node side looks."""
        for second in range(count):
            if number is not None:
                self.page.step(number(second))
            samples = list(self._source.look(self.job.now))
            ours = [s._replace(pid=PID) for s in samples]
            self.job.intake.samples("node1", ours)
            self.job.run(1, spins)

    @property
    def motion(self) -> tuple[bool | None, str]:
        told = self.job.progress.motion
        return told.moving, told.proof


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    made = Told(monkeypatch)
    yield made
    made.page.close()


def test_a_page_whose_step_grows_proves_that_the_job_moves(told: Told) -> None:
    told.seconds(6, lambda second: 4 + 3 * second)
    assert told.motion == (True, "1 rank, steps 4 to 19 in 5 s")
    assert told.job.progress.motion.last_step == 19
    told.seconds(60, None)
    assert told.motion == (False, ""), "what grew once proves nothing for ever"


@pytest.mark.parametrize("number", [None, lambda _second: 4], ids=["silent", "the same step again and again"])
def test_a_page_whose_step_does_not_grow_proves_nothing(told: Told, number: Callable[[int], int] | None) -> None:
    told.page.step(4)
    told.seconds(60, number)
    assert told.motion == (False, "")
    assert told.job.progress.motion.last_step == 4
