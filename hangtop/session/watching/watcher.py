"""The live session's own mind: follows progress, asks the diagnosis, and looks at stacks when a wait gets too long."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Coroutine
from functools import partial

from hangtop.diagnosis.finding import Unknown, Verdict
from hangtop.diagnosis.waits.patience import seen_after
from hangtop.session.job_snapshot import NodeSnapshot
from hangtop.session.state.changes import Change
from hangtop.session.threads import run_in_thread
from hangtop.session.watching.look_times import LookTimes
from hangtop.session.watching.watched import WatchedSession

PERIOD = 1.0
"""Seconds between two looks at progress,"""
LEISURE = 20.0
"""or so many times the CPU that one takes,"""
LONGEST_PERIOD = 4.0
"""but no more than this."""
LEAST_PAUSE = 2.0
"""Seconds between two verdicts, at the least."""
DUTY = 20.0
"""A verdict is made no more often than every so many times the CPU that it takes,"""
LONGEST_PAUSE = 30.0
"""but at least so often, in seconds."""
SLICE = 24
"""Nodes that are copied in one go: some 3 ms."""
SMALL = 8
"""Nodes that are judged on the spot; with more of them the rules run in a thread, so that no key press waits."""
SOON = 0.05
"""Seconds: a look at progress comes no sooner after the last one, however near the alarm is."""
RUSH = 2.0
"""Seconds that the first nodes have for connecting before the rules are loaded beside them."""
NEEDED = ("hangtop.diagnosis.verdict.verdict", "collectors.probes.stacks")
"""What watching needs and the first screen does not."""
LOOK_SECONDS = 5.0
"""How long the verdict waits for a look; a node that is slower has its say in the next one."""


class Watcher:
    """Runs beside a session from its start to its end."""

    def __init__(self, session: WatchedSession) -> None:
        self._session = session
        self._think_at = 0.0
        self._cost = 0.0
        """Seconds of CPU that the last verdict took."""
        self._look_cost = 0.0
        """The same of the last look at progress."""
        self._times = LookTimes(session)
        self._looks: set[asyncio.Task[object]] = set()
        self._read: set[int] = set()
        """Ranks whose native frames were asked for in the present wait."""
        self._dumped = False
        """Recorders that the job has armed were asked for dumps of the present wait."""
        self._ripe = False
        """The present wait was judged when it became an alarm."""

    async def run(self) -> None:
        """Watch until cancelled."""
        # A second of imports, which is no measure of what a verdict takes; beside connecting both are felt at the keys.
        await self._let_nodes_come()
        for name in NEEDED:
            await run_in_thread(partial(importlib.import_module, name))
        try:
            while True:
                await asyncio.sleep(self._pause())
                await self._survive()
        finally:
            for look in self._looks:
                look.cancel()

    async def _survive(self) -> None:
        """Step; a fault is the verdict then, until a step goes well: an old one would stand there as if it were new."""
        try:
            await self.step()
        except Exception as error:  # noqa: BLE001 - whatever it was, somebody looks at the screen and believes it
            why = f"watching failed: {type(error).__name__}: {error}"
            self._session.publish(Verdict("unknown", why, unknown=(Unknown("watching", (), why),)))

    def _pause(self) -> float:
        """Seconds until the next look at progress: until the present wait becomes an alarm, where that is sooner."""
        pause = min(LONGEST_PERIOD, max(PERIOD, LEISURE * self._look_cost))
        still = self._session.progress.stood_still
        left = seen_after(self._session.alarm_after) - (still or 0.0)
        return max(SOON, left) if self._times.looked and not self._ripe and left < pause else pause

    async def _let_nodes_come(self) -> None:
        """Wait until no node is connecting any more, but no longer than :data:`RUSH`."""
        end = time.monotonic() + RUSH
        nodes = self._session.state.nodes.values()
        while time.monotonic() < end and any(node.link == "connecting" for node in nodes):  # noqa: ASYNC110 (seldom and cheap)
            await asyncio.sleep(0.05)

    async def step(self) -> None:
        """Look once at progress, and do what it asks for."""
        await self._tick()
        if self._ripens():
            await self._look_natively(again=False)
            await self.think()
        due = self._times.look_due()
        if not self._times.looked:
            self._dumped = False
            self._read.clear()
        if due:
            await self._look()
        elif self._times.sample_due():
            self._ask_once(self._session.dump_stacks(None, unasked=True), "sample")
        if self._session.can_act and self._session.progress.motion.moving is not True:
            # counts mean nothing while they move, and a communicator that is being made may not bear a question
            # (NVIDIA/nccl#2346, 2.29.7)
            self._ask_once(self._session.job_sources.ras(), "RAS")
        if due or time.monotonic() >= self._think_at:
            if self._times.looked and not due:
                await self._look_natively(again=False)  # what was not seen to stand at the last look may be by now
            verdict = await self.think()
            if verdict.names_nobody and self._session.can_act and not (self._dumped or self._session.options.read_only):
                self._dumped = True
                self._ask_once(self._session.job_sources.recorders(fresh=True), "recorder dumps")

    async def _tick(self) -> None:
        """Look at progress, a slice at a time."""
        cost, began = 0.0, time.thread_time()
        for _ in self._session.ticking():
            cost += time.thread_time() - began
            await asyncio.sleep(0)
            began = time.thread_time()
        self._look_cost = cost + time.thread_time() - began

    async def _look(self) -> None:
        """Look at all stacks; who has not answered by then is left to answer later."""
        looks = {self._ask(self._session.dump_stacks(None, unasked=True), "look")}
        looks |= self._ask_once(self._session.job_sources.recorders(), "recorders")
        await self._wait_for(looks)
        await self._look_natively()

    async def _look_natively(self, *, again: bool = True) -> None:
        """Read native frames of one rank a point, where Python's leave open what a standing job waits for; also
        ``again`` those of ranks that were asked in the present wait already."""  # noqa: D205, D209
        if not self._session.can_act or not self._times.native_due():
            return
        from hangtop.diagnosis.waits.job_status import native_wanted

        snapshot = self._session.snapshot()

        def wanted() -> tuple[int, ...]:
            return native_wanted(self._session.job_of(snapshot))

        ranks = wanted() if len(snapshot.nodes) <= SMALL else await run_in_thread(wanted)
        if not again:
            ranks = tuple(rank for rank in ranks if rank not in self._read)
        if ranks:
            self._read.update(ranks)
            await self._wait_for(self._ask_once(self._session.dump_stacks(ranks, native=True), "native look"))

    async def _wait_for(self, looks: set[asyncio.Task[object]]) -> None:
        """Wait for looks, but not for long; progress is looked at meanwhile, else charts had a hole at each of them."""
        end = time.monotonic() + LOOK_SECONDS
        while looks and (left := end - time.monotonic()) > 0:
            _, looks = await asyncio.wait(looks, timeout=min(PERIOD, left))
            if looks:
                await self._tick()

    def _ask(self, question: Coroutine[object, object, object], name: str) -> asyncio.Task[object]:
        """Ask in the background; a fault is shown as a change, and watching goes on."""
        task = asyncio.create_task(question, name=f"hangtop {name}")
        self._looks.add(task)
        task.add_done_callback(self._answered)
        return task

    def _ask_once(self, question: Coroutine[object, object, object], name: str) -> set[asyncio.Task[object]]:
        """Ask, unless the last answer is still being waited for."""
        if any(task.get_name() == f"hangtop {name}" for task in self._looks):
            question.close()
            return set()
        return {self._ask(question, name)}

    def _answered(self, task: asyncio.Task[object]) -> None:
        self._looks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            text = f"{task.get_name()}: {type(error).__name__}: {error}"
            self._session.state.changes.append(Change(self._session.now(), "", text, "hangtop"))

    async def think(self) -> Verdict:
        """Make a verdict and publish it; a fault of the rules is shown as what it is, and watching goes on."""
        session = self._session
        try:
            verdict = await self._judge()
        except Exception as error:  # noqa: BLE001 - rules read what unrelated' nodes send; one fault must not end the watch
            why = f"the diagnosis failed: {type(error).__name__}: {error}"
            verdict = Verdict("unknown", why, unknown=(Unknown("diagnosis", (), why),))
        verdict = session.publish(verdict)
        self._think_at = time.monotonic() + min(LONGEST_PAUSE, max(LEAST_PAUSE, DUTY * self._cost))
        return verdict

    async def _judge(self) -> Verdict:
        from hangtop.diagnosis.verdict.verdict import diagnose

        session = self._session
        nodes: dict[str, NodeSnapshot] = {}
        # CPU, not time: a machine that is busy with other work makes every verdict late, but none dearer.
        copying, began = 0.0, time.thread_time()
        for number, name in enumerate(list(session.state.nodes), 1):
            nodes[name] = session.node_snapshot(name)
            if number % SLICE == 0:
                copying += time.thread_time() - began
                await asyncio.sleep(0)
                began = time.thread_time()
        snapshot = session.snapshot(nodes)
        copying += time.thread_time() - began

        def judge() -> Verdict:
            began = time.thread_time()
            verdict = diagnose(session.job_of(snapshot))
            while nodes:  # all at once, thousands of them would keep the loop from running until they are gone
                nodes.popitem()
            self._cost = copying + time.thread_time() - began
            return verdict

        return judge() if len(nodes) <= SMALL else await run_in_thread(judge)

    def _ripens(self) -> bool:
        """Tell, once a wait, that it has lasted as long as an alarm needs: what was seen of it is judged then."""
        before, self._ripe = self._ripe, self._times.waits(seen_after(self._session.alarm_after))
        return self._ripe and not before and self._times.looked > 0
