"""The inputs of a session: samples and links of nodes, stacks, answers of sources; all on this machine's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias

from collectors.fleet.decode import BadLine
from collectors.fleet.sink import LinkChange
from collectors.node import redact
from collectors.samples import ranks
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcesses, GpuSample, NvlinkCounters
from collectors.samples.host import Counters, HostSample, Interface, PortFacts, Reading
from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines, LogsRead, StepCount
from collectors.samples.registry import SAMPLES
from collectors.samples.stacks import Frame, StackDump
from collectors.samples.stream import Fault, Hello, SourceState, Tick
from hangtop.diagnosis.node import LinkWord, Node
from hangtop.diagnosis.series import Timed
from hangtop.session.apply import devices, logs, processes
from hangtop.session.apply.clock import ClockOffset, shift_of, shifted, times_of
from hangtop.session.motion.progress import ProgressClock
from hangtop.session.options import SessionOptions, usual_interval
from hangtop.session.recordings import Recordings
from hangtop.session.state import ChangeKind, JobState, SampleContext, surplus

MOST_FRAMES = 16_384
"""Frames that are kept so that ranks at the same place share them."""
NO_PAUSE = frozenset({"nonblocking", "none"})
"""Methods of reading stacks that do not pause the process."""
ANSWER_SEEN = 2.5
"""Seconds after a question within which a rank's samples may show its effect: the rank was paused, or wrote a dump."""

CONFIRM_TICKS = 4
"""Ticks of a new stream after which a rank that it has not named is gone: its sources start at different times."""

Apply: TypeAlias = Callable[[SampleContext, Any], None]


def newest(name: str) -> Apply:
    """An applier that keeps the newest sample in attribute ``name`` of the node."""
    return lambda here, sample: setattr(here.node, name, sample)


def by_first(name: str) -> Apply:
    """An applier that keeps the newest sample for each value of its first field, in dictionary ``name`` of the node."""
    return lambda here, sample: getattr(here.node, name).__setitem__(sample[0], sample)


def hello(here: SampleContext, sample: Hello) -> None:
    """A stream began: known processes must be named again to count as alive, and readings start afresh."""
    node, before = here.node, here.node.hello
    if before is not None and before.boot_id and sample.boot_id and before.boot_id != sample.boot_id:
        here.note("was rebooted", "lost")
        for rank in node.ranks.values():
            processes.end_rank(here, rank, here.at)
        for port in node.ports.values():
            port.counters = port.before = port.first = {}
    node.hello, node.ticks, node.logs_read = sample, 0, -inf
    node.sources, node.faults, node.launchers, node.readings = {}, {}, {}, {}
    node.unconfirmed = frozenset(pid for pid, rank in node.ranks.items() if rank.gone_at is None)
    for rank in node.ranks.values():
        rank.helpers = {}


def tick(here: SampleContext, sample: Tick) -> None:
    """A flush is complete: counters that it does not contain have not moved."""
    node = here.node
    node.tick = sample
    node.ticks += 1
    devices.settle_rates(here)
    if node.unconfirmed and node.ticks >= CONFIRM_TICKS and node.answers("ranks"):
        for pid in node.unconfirmed & node.ranks.keys():
            processes.end_rank(here, node.ranks[pid], here.at)
        node.unconfirmed = frozenset()


def reading(here: SampleContext, sample: Reading) -> None:
    """A source's reading of one thing; its time is when this value was first seen."""
    key = sample.source, sample.of
    known = here.node.readings.get(key)
    if known is None or known.value != sample:
        here.node.readings[key] = Timed(here.at, sample)


def source_state(here: SampleContext, sample: SourceState) -> None:
    """A source has a new state."""
    before = here.node.sources.get(sample.source)
    here.node.sources = {**here.node.sources, sample.source: sample}
    if before is not None and before.state != sample.state:
        why = f": {sample.why}" if sample.why else ""
        here.note(f"{sample.source}: {before.state} → {sample.state}{why}", "back" if sample.state == "ok" else "late")


APPLIERS: dict[type, Apply] = {
    Hello: hello,
    Tick: tick,
    SourceState: source_state,
    Fault: by_first("faults"),
    HostSample: newest("host"),
    Reading: reading,
    ranks.RankProcess: processes.rank,
    ranks.RankPulse: processes.pulse,
    ranks.ProcessGone: processes.gone,
    ranks.Helper: processes.helper,
    ranks.IdleLauncher: by_first("launchers"),
    ranks.InsidePulse: processes.page_pulse,
    ranks.InsideResult: processes.page_result,
    GpuFacts: devices.gpu_facts,
    GpuProcesses: devices.gpu_processes,
    GpuSample: devices.gpu_row,
    GpuFault: devices.gpu_fault,
    NvlinkCounters: devices.nvlink,
    PortFacts: devices.port,
    Counters: devices.counters,
    Interface: devices.interface,
    LogFile: logs.file,
    LogLines: logs.lines,
    LogEvent: logs.event,
    LogsRead: logs.read,
    CommProgress: logs.collectives,
    StepCount: logs.steps,
}
"""Kind of sample → function that applies it."""
assert APPLIERS.keys() == set(SAMPLES), "a kind of sample has no applier"


class Intake:
    """The sink of a fleet and of answers to the session's questions: they go into the state and the recording.

    ``state`` is the latest of everything; ``now`` gives the session's present: wall clock or a recording's time. Called
    on the event loop; a sample costs about a microsecond.
    """

    def __init__(self, options: SessionOptions, now: Callable[[], float]) -> None:
        self.now = now
        self.state = JobState(started=now(), interval=options.interval or usual_interval(1))
        self.progress = ProgressClock(self.state)
        self.recordings = Recordings(options, self.state, now)
        self._offsets: dict[str, ClockOffset] = {}

    def samples(self, node: str, samples: Sequence[NamedTuple]) -> None:
        """Apply the samples of one chunk, in order (see :class:`collectors.fleet.sink.Sink`)."""
        state, arrived = self.state.node(node), self.now()
        state.seen_at = arrived
        for flush in _flushes(samples):
            here = SampleContext(self.state, state, self._flushed(state, flush, arrived))
            shift = shift_of(state.clock_offset)
            for sample in flush:
                kind = type(sample)
                APPLIERS[kind](here, shifted(sample, times_of(kind), shift) if shift else sample)
        much = surplus(state)
        if much and state.link == "live":
            self.link(LinkChange(node, "limited", f"it names {much}: more is not kept", arrived))
        self.recordings.take(node, samples)

    def _flushed(self, node: Node, flush: Sequence[NamedTuple], arrived: float) -> float:
        """The time of a flush on our clock, from its tick, even if several flushes came in one chunk.

        It updates the clock offset first, so that times after a change of the node's clock are right.
        """
        at = arrived
        for sample in flush:
            if type(sample) is Hello or type(sample) is Tick:  # sent as soon as they are made
                if type(sample) is Hello or node.name not in self._offsets:
                    self._offsets[node.name] = ClockOffset()
                node.clock_offset = self._offsets[node.name].learn(sample.clock, arrived)
                at = min(arrived, sample.clock - node.clock_offset)
        return at

    def link(self, change: LinkChange) -> None:
        """Take a node's new connection state."""
        node = self.state.node(change.node)
        if node.link != change.link and (node.since or change.link != "connecting"):
            why = f": {change.why}" if change.why else ""
            self.state.note(change.at, change.link + why, _kind(node.link, change.link), node.name)
        if node.link != change.link or not node.since:
            node.since = change.at
        node.link, node.why, node.refused = change.link, change.why, change.refused
        self.recordings.take(change.node, [change])

    def bad_line(self, node: str, text: str, why: str, lines: int = 1) -> None:
        """Count ``lines`` lines that did not decode, and keep the beginning of one."""
        here, begin = self.state.node(node), redact.shapes(text)[:200]
        here.bad_lines += lines
        here.last_bad = f"{why}: {begin}"
        self.recordings.take(node, [BadLine(begin, why, lines)])

    def stacks(self, node: str, dumps: Sequence[StackDump]) -> None:
        """Take the dumps of a sample of a node's stacks; their times are on this machine's clock."""
        self.asked(node, (dump.pid for dump in dumps if dump.method not in NO_PAUSE))
        self.state.stacks.extend((node, _with_known_frames(dump)) for dump in dumps)
        self.recordings.take(node, dumps)

    def asked(self, node: str, pids: Iterable[int]) -> None:
        """Note that the activity of these ranks in the next seconds may be due to a question of hangtop."""
        until, known = self.now() + ANSWER_SEEN + self.state.untold, self.state.node(node).ranks
        for pid in known.keys() & set(pids):
            known[pid].answers_until = until

    def take_report(self, said: RecorderDump | RasReport) -> None:
        """Take a flight recorder's dump or an answer of RAS."""
        if isinstance(said, RecorderDump):
            self.state.recorders[said.rank] = said
        else:
            self.state.ras.append(Timed(said.at, said))
        self.recordings.take("", [said])


_frames: dict[tuple[str, str, int, bool], Frame] = {}


def _with_known_frames(dump: StackDump) -> StackDump:
    """The same dump with shared frame objects: most ranks of a job stand at the same few points."""
    threads = [thread._replace(frames=[_known(frame) for frame in thread.frames]) for thread in dump.threads]
    return dump._replace(threads=threads)


def _known(frame: Frame) -> Frame:
    if frame.arguments:
        return frame
    place = frame[:4]
    return _frames.setdefault(place, frame) if len(_frames) < MOST_FRAMES else _frames.get(place, frame)


def _flushes(samples: Sequence[NamedTuple]) -> Iterator[Sequence[NamedTuple]]:
    """The samples of each flush; a tick ends a flush."""
    begin = 0
    for end, sample in enumerate(samples, 1):
        if type(sample) is Tick or end == len(samples):
            yield samples[begin:end]
            begin = end


def _kind(before: LinkWord, now: LinkWord) -> ChangeKind:
    worse: dict[LinkWord, ChangeKind] = {"lost": "lost", "stale": "lost", "limited": "late"}
    return worse.get(now) or ("back" if now == "live" and before in worse else "hangtop")
