"""What ranks do to answer a question of ours is no motion of the job's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from collectors.fleet.transport import TransportError
from collectors.probes import recorder as fetch
from collectors.samples.ranks import RankPulse
from hangtop.session.intake import ANSWER_SEEN
from hangtop.session.watching.job_sources import JobSources
from tests.support.local_session import local_session
from tests.support.made import process
from tests.support.pulses import Job, spins


def dumps(p: RankPulse) -> RankPulse:
    """Writes a flight recorder's dump while its main thread spins."""
    return spins(p)._replace(written_bytes=(p.written_bytes or 0) + (40 << 20))


def test_a_dump_that_was_asked_for_moves_nothing() -> None:
    job = Job()
    job.run(20, spins)
    job.intake.state.nodes["node1"].answering.update((pid, job.now + 3.0) for pid in range(1000, 1004))
    job.run(3, dumps)
    assert (job.progress.motion.moving, job.progress.stood_still) == (False, 22.0)
    job.run(4, spins)
    assert job.progress.motion.moving is False, "nor does what it was told afterwards"


def test_what_is_written_unasked_and_later_is_motion() -> None:
    job = Job()
    job.run(20, spins)
    job.run(3, dumps)
    assert job.progress.motion.moving is True
    job.intake.state.nodes["node1"].answering.update((pid, job.now - 3.0) for pid in range(1000, 1004))
    job.run(3, dumps)
    assert job.progress.motion.moving is True


@pytest.mark.parametrize("fails", [False, True])
async def test_ranks_answer_from_the_question_until_their_samples_have_told_of_it(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    session = local_session(process(0, os.getpid()))
    (node,) = session.state.nodes.values()
    seen: list[dict[int, float]] = []

    async def asked(*_: Any, fresh: bool) -> Sequence[fetch.Dump]:
        seen.append(dict(node.answering))
        if fails:
            raise TransportError("it is gone")
        return []

    monkeypatch.setattr(fetch, "fetch", asked)
    job_sources = JobSources(session)
    await job_sources.recorders()
    assert (seen[0], node.answering) == ({}, {}), "what lies on a disk is read, and the rank does nothing for it"
    before = session.now()
    await job_sources.recorders(fresh=True)
    assert seen[1] == {os.getpid(): inf}
    assert before + ANSWER_SEEN <= node.answering[os.getpid()] < inf
