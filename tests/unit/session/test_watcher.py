"""The session's own mind: when it looks at stacks, when it judges, whom it tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.control import Settings
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job, JobMotion
from hangtop.session.feed import Receiver
from hangtop.session.motion.progress import Progress
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching import look_times, watcher
from hangtop.session.watching.looking import no_dump
from tests.support.made import hello, process, pulse, stack, tick


class Feed:
    """A live feed whose clock the test moves."""

    live = True
    connected = True

    def __init__(self) -> None:
        self.time = 1000.0
        self.told: list[tuple[str | None, Settings]] = []

    def now(self) -> float:
        return self.time

    async def start(self, receiver: Receiver) -> None:
        """Nothing comes by itself."""

    async def close(self) -> None:
        """Nothing to close."""

    def transport(self, node: str) -> Transport:
        raise TransportError(f"{node}: not in this test")

    def python(self, node: str) -> str:
        raise TransportError(f"{node}: not in this test")

    def retry(self, node: str) -> None:
        raise TransportError(f"{node}: not in this test")

    def settings(self, node: str | None, settings: Settings) -> None:
        self.told.append((node, settings))


class Watched:
    """A session whose watcher is stepped by hand; every look at stacks is noted with its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, options: SessionOptions) -> None:
        self.feed = Feed()
        self.session = Session(options, feed=self.feed)
        self.looked: list[float] = []
        self.verdict = Verdict("healthy", "")
        self.session.link(LinkChange("node1", "live", "", 1000.0))
        self.session.samples("node1", [hello(1000.0), process(0), process(1)], 1)
        monkeypatch.setattr("hangtop.diagnosis.verdict.verdict.diagnose", self._diagnose)
        monkeypatch.setattr(self.session, "dump_stacks", self._dump)
        monkeypatch.setattr(watcher, "LEAST_PAUSE", 0.0)
        monkeypatch.setattr(watcher, "DUTY", 0.0)
        monkeypatch.setattr(look_times, "SAMPLED_RANKS", 0)  # looks at a job that moves have tests of their own

    def _diagnose(self, job: Job) -> Verdict:
        return self.verdict

    async def _dump(self, ranks: object, *, unasked: bool = False, native: bool = False) -> list[tuple[str, StackDump]]:
        self.looked.append(self.feed.time)
        return []

    async def run(self, seconds: int, *, still: bool) -> None:
        """Let seconds pass in which both ranks work, or neither moves."""
        for _ in range(seconds):
            self.feed.time += 1.0
            switches = 0 if still else int(self.feed.time) * 50
            cpu = switches * 0.01
            pulses = [pulse(1000 + rank, voluntary_switches=switches, cpu_user=cpu) for rank in range(2)]
            self.session.samples("node1", [*pulses, tick(self.feed.time)], 1)
            await self.session.watcher.step()
            await asyncio.sleep(0)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Watched]:
    return lambda **options: Watched(monkeypatch, SessionOptions(**options))


async def test_it_looks_half_way_to_the_alarm_and_looks_again(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=20.0)
    await watched.run(20, still=False)
    began = watched.feed.time
    await watched.run(150, still=True)
    assert [at - began for at in watched.looked] == pytest.approx([10, 12, 20, 40, 100], abs=2)


async def test_the_last_look_at_a_wait_is_never_old(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a rank that works is through and waits elsewhere, an old look would say for long that it works."""
    watched = watch(patience=10.0)
    await watched.run(20, still=False)
    began = watched.feed.time
    monkeypatch.setattr(look_times, "SAMPLED_RANKS", 256)
    await watched.run(100, still=True)
    at = [at - began for at in watched.looked]
    assert max(after - before for before, after in pairwise([x for x in at if x < 36])) <= 7.0
    assert max(after - before for before, after in pairwise(at)) <= 17.0


async def test_a_wait_is_judged_when_it_becomes_an_alarm_and_waits_for_no_look(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=30.0)
    monkeypatch.setattr(watcher, "LEAST_PAUSE", 1e9)  # else it is judged in every step
    judged: list[float] = []

    def publish(verdict: Verdict) -> Verdict:
        judged.append(watched.feed.time)
        return verdict

    monkeypatch.setattr(watched.session, "publish", publish)
    await watched.run(20, still=False)
    began = watched.feed.time
    judged.clear()
    await watched.run(32, still=True)
    assert [at - began for at in judged] == pytest.approx([15, 17, 25, 29], abs=2)
    judged.clear()
    await watched.run(5, still=False)
    assert judged == []


async def test_the_last_step_before_an_alarm_waits_no_longer_than_until_that(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=20.0)
    await watched.run(20, still=False)
    assert watched.session.watcher._pause() == watcher.PERIOD, "it moves"
    await watched.run(5, still=True)
    assert watched.session.watcher._pause() == watcher.PERIOD, "the alarm is far"
    await watched.run(14, still=True)
    watched.feed.time += 0.5
    await watched.session.watcher.step()
    still = watched.session.progress.stood_still
    assert still is not None
    assert 18.0 < still < 19.0
    assert still + watched.session.watcher._pause() == pytest.approx(19.0), "an alarm needs what looks can see of 20"
    await watched.run(2, still=True)
    assert watched.session.watcher._pause() == watcher.PERIOD, "it was judged"


async def test_what_a_look_left_open_is_read_natively_once_before_the_next(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=20.0)
    native: list[float] = []

    async def dump(ranks: object, **more: bool) -> list[object]:
        if more.get("native"):
            native.append(watched.feed.time - began)
        return []

    def wanted(job: Job) -> tuple[int, ...]:
        return (1,) if watched.feed.time - began >= 14 else ()

    monkeypatch.setattr(watched.session, "dump_stacks", dump)
    monkeypatch.setattr("hangtop.diagnosis.waits.job_status.native_wanted", wanted)
    await watched.run(20, still=False)
    began = watched.feed.time
    await watched.run(18, still=True)
    assert native == pytest.approx([14], abs=1.1), "the looks were at 10 and 12 s"
    await watched.run(10, still=True)
    assert len(native) == 2, "the next look, at 20 s, reads anew"


async def test_a_job_that_moves_is_sampled_now_and_then(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=20.0)
    monkeypatch.setattr(look_times, "SAMPLED_RANKS", 256)
    await watched.run(60, still=False)
    assert 5 <= len(watched.looked) <= 7, "every ten seconds, on the average"


async def test_a_job_whose_steps_have_become_long_is_sampled_often_for_a_while(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=20.0)
    monkeypatch.setattr(look_times, "SAMPLED_RANKS", 256)
    step_s = [0.5]
    monkeypatch.setattr(Progress, "motion", property(lambda _: JobMotion(moving=True, proof="steps", step_s=step_s[0])))
    await watched.run(30, still=False)
    before = len(watched.looked)
    step_s[0] = 3.0
    await watched.run(20, still=False)
    assert 5 <= len(watched.looked) - before <= 7, "in a quarter of a minute a slow one can be told"
    await watched.run(40, still=False)
    often = len(watched.looked)
    await watched.run(60, still=False)
    assert 5 <= len(watched.looked) - often <= 7, "every ten seconds again"
    step_s[0] = 0.6
    await watched.run(10, still=False)
    usual = len(watched.looked)
    step_s[0] = 3.0
    await watched.run(20, still=False)
    assert 5 <= len(watched.looked) - usual <= 7, "once more"


async def test_nobody_looks_at_a_job_that_moves_under_read_only(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=20.0, read_only=True)
    monkeypatch.setattr(look_times, "SAMPLED_RANKS", 256)
    await watched.run(60, still=False)
    assert watched.looked == []


async def test_it_never_looks_at_a_job_that_moves(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=20.0)
    await watched.run(100, still=False)
    assert watched.looked == []


async def test_pauses_that_are_usual_for_the_job_are_waited_out_once_more(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=10.0)
    await watched.run(3, still=False)
    await watched.run(40, still=True)
    await watched.run(3, still=False)
    native: list[float] = []

    def wanted(job: Job) -> tuple[int, ...]:
        native.append(watched.feed.time)
        return ()

    monkeypatch.setattr("hangtop.diagnosis.waits.job_status.native_wanted", wanted)
    watched.looked.clear()
    await watched.run(36, still=True)
    assert watched.looked, "where it stands only a look tells, which stops nobody"
    assert native == [], "nobody is paused for what is usual"
    await watched.run(8, still=True)
    assert native


async def test_a_pause_is_known_by_where_the_job_stood(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=10.0)
    await watched.run(3, still=False)
    watched.verdict = Verdict("unknown", "", place="compile in step (train.py)")
    await watched.run(40, still=True)
    watched.verdict = Verdict("healthy", "")
    await watched.run(3, still=False)
    assert watched.session.alarm_after == pytest.approx(80, abs=4), "it may stand anywhere"
    watched.verdict = Verdict("unknown", "", place="data in read (data.py)")
    await watched.run(8, still=True)
    assert watched.session.alarm_after == 10.0


async def test_a_job_that_moves_is_looked_at_within_its_usual_pauses_too(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=30.0)
    await watched.run(20, still=False)
    monkeypatch.setattr(look_times, "SAMPLED_RANKS", 256)
    stood: list[float] = []
    for _ in range(12):  # a step takes ten seconds, nine of which nothing moves
        for still in (False, True, True, True, True, True, True, True, True, True):
            before = len(watched.looked)
            await watched.run(1, still=still)
            stood += [watched.session.progress.stood_still or 0.0] * (len(watched.looked) - before)
    assert max(stood[2:]) > look_times.SUSPECT


async def test_who_has_just_come_is_told_what_is_waited_for(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=60.0)
    await watched.run(12, still=True)
    assert [at - 1000.0 for at in watched.looked] == pytest.approx([4, 6], abs=1)


async def test_an_old_hang_is_not_looked_at_every_second(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=60.0)
    await watched.run(20, still=False)
    watched.feed.time += 7200
    await watched.run(60, still=True)
    assert len(watched.looked) <= 4


async def test_read_only_never_looks(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=5.0, read_only=True)
    await watched.run(3, still=False)
    await watched.run(100, still=True)
    assert watched.looked == []


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
    assert watched.session.verdict is watched.verdict


async def test_it_watches_by_itself_until_it_is_closed(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "PERIOD", 0.001)
    watched = watch()
    heard = asyncio.Event()
    watched.session.on_verdict.append(lambda before, now: heard.set())
    await watched.session.start()
    await asyncio.wait_for(heard.wait(), 10)
    await watched.session.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "hangtop watcher"]


async def test_stacks_of_a_node_without_connection_are_dumps_with_an_error() -> None:
    session = Session(SessionOptions(), feed=Feed())
    session.link(LinkChange("node1", "live", "", 1000.0))
    session.samples("node1", [hello(1000.0), process(0), process(1), tick(1000.0)], 1)
    dumps = await session.dump_stacks([1])
    assert [(node, dump.pid, dump.error) for node, dump in dumps] == [
        ("node1", 1001, "unreachable: node1: not in this test")
    ]
    assert list(session.state.stacks) == dumps


async def test_the_rules_are_loaded_once_no_node_connects_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "RUSH", 60.0)
    asked = asyncio.Event()

    async def run_in_thread(_work: object) -> None:
        asked.set()

    monkeypatch.setattr(watcher, "run_in_thread", run_in_thread)
    session = Session(SessionOptions(), feed=Feed())
    session.link(LinkChange("node1", "connecting", "", 1000.0))
    running = asyncio.create_task(session.watcher.run())
    await asyncio.sleep(0.12)
    assert not asked.is_set()
    session.link(LinkChange("node1", "live", "", 1000.0))
    await asyncio.wait_for(asked.wait(), 10)
    running.cancel()
    await asyncio.wait({running})


async def test_it_looks_again_as_soon_as_a_node_that_could_not_be_asked_answers(watch: Callable[..., Watched]) -> None:
    watched = watch(patience=20.0)
    session = watched.session
    session.samples("node2", [hello(1000.0), process(2)], 1)
    await watched.run(20, still=False)
    session.link(LinkChange("node2", "lost", "no answer", watched.feed.time))
    session.stacks("node2", [no_dump(1002, "unreachable: node2 is lost")])
    await watched.run(70, still=True)
    looks = len(watched.looked)
    session.link(LinkChange("node2", "live", "", watched.feed.time))
    await watched.run(3, still=True)
    assert len(watched.looked) == looks + 1
    session.stacks("node2", [stack(1002, "step t.py:3")])
    await watched.run(10, still=True)
    assert len(watched.looked) == looks + 1


async def test_progress_is_looked_at_while_a_look_at_stacks_takes_its_time(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(patience=10.0)
    await watched.run(20, still=False)
    ticks, looking, enough = 0, False, asyncio.Event()
    ticking = watched.session.ticking

    def counted() -> Iterator[None]:
        nonlocal ticks
        ticks += looking
        if ticks >= 3:
            enough.set()
        return ticking()

    async def slow(*_: object, **__: object) -> list[tuple[str, StackDump]]:
        nonlocal looking
        looking = True
        await asyncio.wait_for(enough.wait(), 3.0)
        looking = False
        return []

    monkeypatch.setattr(watched.session, "ticking", counted)
    monkeypatch.setattr(watched.session, "dump_stacks", slow)
    monkeypatch.setattr(watcher, "PERIOD", 0.01)
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 4.0)
    await watched.run(6, still=True)
    assert enough.is_set()
    assert not [change.text for change in watched.session.state.changes if "TimeoutError" in change.text]


async def test_a_fault_while_watching_is_the_verdict_until_a_step_goes_well(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch()
    session = watched.session

    def said() -> str:
        return "" if session.verdict is None else f"{session.verdict.outcome} {session.verdict.summary}"

    await session.watcher.think()
    assert said().startswith("healthy")
    monkeypatch.setattr(watcher, "PERIOD", 0.01)
    monkeypatch.setattr(watcher, "NEEDED", ())
    ticking = session.ticking

    def broken() -> Iterator[None]:
        yield
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(session, "ticking", broken)
    watching = asyncio.create_task(session.watcher.run())
    await asyncio.sleep(0.1)
    assert said() == "unknown watching failed: ValueError: I/O operation on closed file"
    monkeypatch.setattr(session, "ticking", ticking)
    for _ in range(100):
        await asyncio.sleep(0.05)
        if said().startswith("healthy"):
            break
    assert said().startswith("healthy")
    assert not watching.done()
    watching.cancel()
