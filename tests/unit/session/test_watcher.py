"""The session's own mind: when it looks at stacks, when it judges, whom it tells."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from itertools import repeat

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching import watcher
from tests.support.made import hello, process, pulse, tick


class MovedSession(Session):
    """A live session whose clock the test moves."""

    can_act = True

    def __init__(self, options: SessionOptions) -> None:
        self.time = 1000.0
        super().__init__(options, clock=lambda: self.time)


class Watched:
    """A session whose watcher is stepped by hand; every look at stacks is noted with its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, options: SessionOptions) -> None:
        self.session = MovedSession(options)
        self.looked: list[float] = []
        self.verdict = Verdict("healthy", "")
        self.session.link(LinkChange("node1", "live", "", 1000.0))
        self.session.samples("node1", [hello(1000.0), process(0), process(1)])
        monkeypatch.setattr("hangtop.diagnosis.verdict.verdict.diagnose", self._diagnose)
        monkeypatch.setattr(self.session.job_sources, "stacks", self._dump)
        monkeypatch.setattr(watcher, "LEAST_PAUSE", 0.0)
        monkeypatch.setattr(watcher, "LEISURE", 0.0)
        monkeypatch.setattr(watcher, "SAMPLED_RANKS", 0)  # looks at a job that moves have tests of their own

    def _diagnose(self, job: Job) -> Verdict:
        return self.verdict

    async def _dump(self, ranks: object, *, unasked: bool = False, native: bool = False) -> list[tuple[str, StackDump]]:
        self.looked.append(self.session.time)
        return []

    async def run(self, seconds: int, *, still: bool) -> None:
        """Let seconds pass in which both ranks work, or neither moves."""
        for _ in range(seconds):
            self.session.time += 1.0
            switches = 0 if still else int(self.session.time) * 50
            cpu = switches * 0.01
            pulses = [pulse(1000 + rank, voluntary_switches=switches, cpu_user=cpu) for rank in range(2)]
            self.session.samples("node1", [*pulses, tick(self.session.time)])
            await self.session.watcher.step()
            await asyncio.sleep(0)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Watched]:
    return lambda **options: Watched(monkeypatch, SessionOptions(**options))


async def test_it_looks_half_way_to_the_alarm_and_looks_again(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=20.0)
    await watched.run(20, still=False)
    began = watched.session.time
    await watched.run(150, still=True)
    after = [at - began for at in watched.looked]
    assert after[0] == pytest.approx(10, abs=1)
    assert len([at for at in after if at < 20]) >= 6, "the first looks tell who makes progress"
    assert after[-1] - after[-2] == pytest.approx(15, abs=1)


async def test_a_job_that_moves_is_sampled_now_and_then(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=20.0)
    monkeypatch.setattr(watcher, "SAMPLED_RANKS", 256)
    await watched.run(60, still=False)
    assert 5 <= len(watched.looked) <= 7, "every ten seconds, on the average"


async def test_pauses_that_are_usual_for_the_job_are_waited_out_once_more(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=10.0)
    await watched.run(3, still=False)
    await watched.run(40, still=True)
    await watched.run(3, still=False)
    native: list[float] = []

    def wanted(job: Job) -> tuple[int, ...]:
        native.append(watched.session.time)
        return ()

    monkeypatch.setattr("hangtop.diagnosis.waits.job_status.native_wanted", wanted)
    watched.looked.clear()
    await watched.run(36, still=True)  # the usual pause has been 40 s
    assert watched.looked, "where it stands only a look tells, which stops nobody"
    assert native == [], "nobody is paused for what is usual"
    await watched.run(20, still=True)
    assert native


async def test_who_has_just_come_is_told_what_is_waited_for(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=60.0)
    await watched.run(12, still=True)
    assert watched.looked[0] - 1000.0 == pytest.approx(4, abs=1)


async def test_read_only_takes_stacks_that_pause_no_rank_and_no_native_frames(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=5.0, read_only=True)
    monkeypatch.setattr("hangtop.diagnosis.waits.job_status.native_wanted", lambda job: pytest.fail("it pauses"))
    await watched.run(3, still=False)
    await watched.run(100, still=True)
    assert watched.looked


async def test_a_fault_of_the_rules_is_shown_and_watching_goes_on(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: Job) -> Verdict:
        raise ZeroDivisionError("division by zero")

    watched = watch()
    monkeypatch.setattr("hangtop.diagnosis.verdict.verdict.diagnose", broken)
    await watched.run(1, still=False)
    verdict = watched.session.verdict
    assert verdict is not None
    assert verdict.outcome == "unknown"
    assert "ZeroDivisionError" in verdict.unknown[0].why
    monkeypatch.setattr("hangtop.diagnosis.verdict.verdict.diagnose", watched._diagnose)
    await watched.run(1, still=False)
    assert watched.session.verdict == watched.verdict


async def test_garbage_is_collected_again_after_a_verdict_that_was_cancelled(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch()
    monkeypatch.setattr(watched.session, "copying", lambda _: repeat(None))
    judging = asyncio.create_task(watched.session.watcher.judge())
    await asyncio.sleep(0)
    assert not gc.isenabled()
    judging.cancel()
    await asyncio.wait([judging])
    assert gc.isenabled()


async def test_stacks_of_a_node_without_connection_are_dumps_with_an_error() -> None:
    session = MovedSession(SessionOptions())
    session.link(LinkChange("node1", "live", "", 1000.0))
    session.samples("node1", [hello(1000.0), process(0), process(1), tick(1000.0)])
    dumps = await session.job_sources.stacks([1])
    assert [(node, dump.pid, dump.error) for node, dump in dumps] == [
        ("node1", 1001, "unreachable: node1: this session has no connections")
    ]
    assert list(session.state.stacks) == dumps
