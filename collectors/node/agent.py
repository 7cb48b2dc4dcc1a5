"""The node side: one process that prints samples until its connection ends.

Three kinds of threads: the main one ticks and writes, one reads the control line and re-arms the alarm, and each source
has its own. A write that blocks stops the ticks and with them the sources, but neither the control line nor the alarm.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from collectors.node import loader, watchdog, wire
from collectors.node.changes import ChangeFilter
from collectors.node.files import read_text, write_all
from collectors.node.processes.procfs import PAGE_SIZE
from collectors.node.resources import give_memory_back, reuse_memory, yield_to_all
from collectors.node.runner import Runner
from collectors.node.source import Shared
from collectors.node.sources import SOURCES, WANTS, load
from collectors.samples.stream import Fault, Hello, Lent, Settings, Tick

TICK_BYTES = 512 << 10
"""Bytes that one tick may send: a node must not flood the machine that watches it."""

GRACE = 0.25
"""Share of the interval that a tick waits for its sources; later samples go with the next tick."""
FIRST_GRACE = 2.0
"""Seconds that the very first tick waits for ranks, which may be slow to read on a busy node."""
START_TICKS = 10
"""Ticks after which the start phase ends, even if a source has not answered yet."""

SETTLED = 5
"""Tick after which all sources have been imported; memory used only by the imports is then returned ..."""
TRIM_EVERY = 120
"""... and again every so many ticks."""

FIRST = 2
"""Number of sources that answer before the others are imported: a user who opens the screen wants to see ranks."""


class Agent:
    """Collects from its sources once a tick and writes what changed."""

    def __init__(self, names: Sequence[str], silence: int, settings: Settings) -> None:
        self._silence = silence
        self._settings = settings
        self._new_settings: Optional[Settings] = settings
        self._wake = threading.Event()
        self._finished = threading.Condition()
        self._filter = ChangeFilter()
        self._faults: Dict[Tuple[str, str], int] = {}
        self._seq = 0
        reuse_memory()
        shared = Shared()
        self._runners = [Runner(name, partial(load, name), shared, self._finished) for name in names]

    def run(self) -> NoReturn:
        """Tick until the watchdog ends the process."""
        watchdog.watch(self._control, self._silence)
        self._write([wire.encode(self._hello())])
        self._tick(self._runners[:FIRST], FIRST_GRACE)
        yielded = False
        while True:
            self._tick(self._runners, min(1.0, self._settings.interval * GRACE))
            if not yielded and (self._seq > START_TICKS or all(runner.state is not None for runner in self._runners)):
                # Not earlier: with all cores busy, a low priority would extend the start to half a minute. The thread
                # of the control line keeps its priority: re-arming the alarm too late would end the process.
                yield_to_all()
                yielded = True
            interval, phase = self._settings.interval, self._settings.phase
            if not yielded:  # all sources should answer soon after the start, even with a long interval
                interval = min(1.0, interval)
            self._wake.wait(interval - (time.time() - phase * interval) % interval)
            self._wake.clear()

    # --- the control line: its own thread ----------------------------------------------------------------------

    def _control(self, line: bytes) -> None:
        """Process a line of the control line."""
        try:
            control = wire.decode_control(line)
        except ValueError as error:
            self._fault("control", "a line of the control line was not understood: %s" % error)
            return
        if isinstance(control, Settings):
            with self._finished:
                self._new_settings = control
            self._wake.set()
        elif isinstance(control, Lent):
            loader.keep(control.name, control.content.encode())

    # --- ticks: the main thread --------------------------------------------------------------------------------

    def _tick(self, asked: Sequence[Runner], grace: float) -> None:
        """Let these sources read, wait up to ``grace`` seconds, and send the samples of sources finished by then."""
        began = time.monotonic()
        with self._finished:
            settings, self._new_settings = self._new_settings, None
        if settings is not None:
            self._settings = settings
            for runner in self._runners:
                runner.configure(settings)
        samples = self._harvest(began)
        for runner in asked:
            runner.ask(began)
        with self._finished:
            self._finished.wait_for(lambda: not any(runner.busy for runner in self._runners), grace)
        now = time.monotonic()
        samples += self._harvest(now)
        lines = self._lines(self._filter.changed(samples))
        self._seq += 1
        usage = os.times()
        cpu = time.process_time() + usage.children_user + usage.children_system
        pages = int((read_text("/proc/self/statm") or "0 0").split()[1])
        tick = Tick(self._seq, time.time(), round(now - began, 6), round(cpu, 3), pages * PAGE_SIZE)
        self._write([*lines, wire.encode(tick)])
        if self._seq % TRIM_EVERY == SETTLED:
            give_memory_back()

    def _harvest(self, moment: float) -> List[NamedTuple]:
        """Samples of finished reads."""
        return [sample for runner in self._runners for sample in runner.harvest(moment)]

    def _lines(self, samples: Sequence[NamedTuple]) -> List[bytes]:
        """Encode samples up to :data:`TICK_BYTES`; the rest becomes a fault (states are sent again, events not)."""
        rows: List[Tuple[str, str]] = []
        size = 0
        for sample in samples:
            kind = type(sample).__name__
            try:
                row = wire.fields(sample)
            except (TypeError, ValueError) as error:
                self._fault("agent", "a %s could not be written: %s" % (kind, error))
                continue
            if size + len(row) > TICK_BYTES:
                self._filter.forget(sample)
                self._fault("agent", "%s held back: over %d KiB in a tick" % (kind, TICK_BYTES >> 10))
                continue
            size += len(row)
            rows.append((kind, row))
        faults = [Fault(source, text, times) for (source, text), times in list(self._faults.items())]
        rows += [("Fault", wire.fields(fault)) for fault in self._filter.changed(faults)]
        return wire.lines(rows)

    def _fault(self, source: str, text: str) -> None:
        self._faults[source, text] = self._faults.get((source, text), 0) + 1

    def _write(self, lines: Sequence[bytes]) -> None:
        """Write all lines at once. May block; without a reader the alarm then ends the process."""
        try:
            write_all(1, b"".join(lines))
        except OSError:
            watchdog.leave()

    def _hello(self) -> Hello:
        machine = os.uname()
        return Hello(
            python=sys.version.split()[0],
            hostname=machine.nodename,
            boot_id=read_text("/proc/sys/kernel/random/boot_id"),
            machine=machine.machine,
            kernel=machine.release,
            pid=os.getpid(),
            clock=time.time(),
            wants=[name for name, place in WANTS.items() if os.path.exists(place)],
            narrowed=[name for name in ("HANGTOP_ONLY", "HANGTOP_SYS") if name in os.environ],
        )


def main(arguments: Dict[str, Any]) -> None:
    """Entry of the payload.

    ``arguments``: ``settings`` (fields of :class:`Settings`), and optionally ``sources`` (names; default all) and
    ``silence`` (seconds without a heartbeat before it ends).
    """
    names = arguments.get("sources") or SOURCES
    Agent(
        names=[name for name in SOURCES if name in names],
        silence=arguments.get("silence", watchdog.SILENCE),
        settings=Settings(*arguments["settings"]),
    ).run()
