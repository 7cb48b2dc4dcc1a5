"""When NCCL's RAS is asked by itself: of a job that stands still or may, never of one that is seen to move."""

from __future__ import annotations

import asyncio

import pytest

from hangtop.diagnosis.job import JobMotion
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.unit.session.test_watcher import Feed


@pytest.mark.parametrize(("moving", "asked"), [(True, 0), (None, 1), (False, 1)])
async def test_a_job_that_moves_is_not_asked(monkeypatch: pytest.MonkeyPatch, moving: bool | None, asked: int) -> None:
    session = Session(SessionOptions(), feed=Feed())
    questions: list[float] = []

    async def ras() -> None:
        questions.append(session.now())

    monkeypatch.setattr(session.witnesses, "ras", ras)
    monkeypatch.setattr(type(session.progress), "motion", property(lambda _: JobMotion(moving=moving)))
    await session.watcher.step()
    await asyncio.sleep(0)
    assert len(questions) == asked
    await session.close()
