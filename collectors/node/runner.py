"""Runs one source independently of the others, with its own thread, deadline and state."""

from __future__ import annotations

import threading
import time
from typing import Callable, List, NamedTuple, Optional, Tuple, Type

from collectors.node.resources import yield_to_all
from collectors.node.source import Shared, Source, Unavailable
from collectors.samples.stream import Settings, SourceState


class Runner:
    """One source in a thread. The agent's main thread calls all methods; none of them waits for the source."""

    def __init__(
        self, name: str, load: Callable[[], Type[Source]], shared: Shared, finished: threading.Condition
    ) -> None:
        """``finished`` guards the state shared by both threads, and is notified after each read."""
        self.name = name
        self._load = load
        self._shared = shared
        self._finished = finished
        self._settings: Optional[Settings] = None
        self._go = threading.Lock()  # an Event would cost a dozen times as much per tick
        self._go.acquire()
        self.busy = False
        """True while a read is in progress."""
        self._asked = 0.0
        self._next = 0.0
        """Times of the last read's start and of the next read (monotonic clock)."""
        self._deadline = Source.deadline
        self._result: Optional[Tuple[List[NamedTuple], SourceState]] = None
        self.state: Optional[SourceState] = None
        """The source's state as last sent; None before its first read has ended."""
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def configure(self, settings: Settings) -> None:
        """Pass settings to the source before its next read, which is due at once."""
        with self._finished:
            self._settings = settings
            self._next = 0.0

    def ask(self, moment: float) -> None:
        """Begin a read if it is due at ``moment`` (monotonic clock) and the last result was taken."""
        if not self.busy and self._result is None and moment >= self._next:
            self.busy = True
            self._asked = moment
            self._go.release()

    def harvest(self, moment: float) -> List[NamedTuple]:
        """Samples of a finished read, preceded by the source's state if it changed."""
        with self._finished:
            result, self._result = self._result, None
        if result is None:
            if not self.busy or moment - self._asked <= self._deadline:
                return []
            why, since = "no answer within %g s" % self._deadline, time.time() - (moment - self._asked)
            result = [], SourceState(self.name, "late", why, since)
        samples, state = result
        if self.state is not None and self.state[:3] == state[:3]:
            return samples
        self.state = state
        return [state, *samples]

    def _run(self) -> None:
        source: Optional[Source] = None
        while True:
            self._go.acquire()
            samples: List[NamedTuple] = []
            state, why, age = "ok", "", 0.0
            first = source is None
            try:
                if source is None:
                    source = self._load()(self._shared)
                    self._deadline = source.deadline
                with self._finished:
                    settings, self._settings = self._settings, None
                if settings is not None:
                    source.configure(settings)
                for sample in source.read(time.time()):
                    samples.append(sample)  # noqa: PERF402 (samples before an exception must not be lost)
            except Unavailable as reason:
                state, why, age = reason.state, str(reason), reason.age
            except Exception as error:  # noqa: BLE001 (a fault in one source must stop no other; it is reported)
                state, why = "failed", _describe(error)
            timing = Source if source is None else source
            pause = timing.period if state == "ok" else max(timing.period, timing.retry)
            with self._finished:
                if self._settings is None:  # otherwise settings arrived during the read, and the next is due at once
                    self._next = self._asked + pause - 0.02  # ticks are never exact: slightly early counts as due
                self._result = samples, SourceState(self.name, state, why, time.time() - age)
                self.busy = False
                self._finished.notify()
            if first:
                yield_to_all()  # not earlier: with all cores busy, the start would take half a minute


def _describe(error: Exception) -> str:
    """One line with the error and its place."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = " (%s:%d)" % (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return "%s: %s%s" % (type(error).__name__, error, place)
