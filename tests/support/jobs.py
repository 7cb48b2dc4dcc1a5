"""Jobs for tests of the diagnosis, told as one would tell them: who is where, for how long, on which node.

    job = Sketch(world=4)
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(["read_shard data.py:88", "train loop.py:10"])
    verdict = job.verdict()

A stack is a list of ``function file:line``, innermost first, as py-spy prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from collectors.samples.collectives import Collective, RasReport, RecorderDump
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuSample
from collectors.samples.host import PortFacts
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.ranks import Helper, InsidePulse, InsideResult, RankProcess, RankPulse
from collectors.samples.stacks import Frame, StackDump, ThreadStack
from collectors.samples.stream import SourceState
from hangtop.diagnosis.finding import Finding, Verdict
from hangtop.diagnosis.job import Job, JobMotion
from hangtop.diagnosis.node import Gpu, Inside, Node, Port, Rank
from hangtop.diagnosis.series import Timed, TimedSeries
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.made import gpu_row, made_node, process, pulse

NOW = 1_800_000_000.0
GIB = 1 << 30

_C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
_LOGGER = "wrapper /venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py:83"
_TORCH = "/venv/lib/python3.11/site-packages/torch"


def c10d(operation: str, *callers: str, line: int = 3252) -> list[str]:
    """A rank inside an operation of torch.distributed, called from ``callers`` (innermost first)."""
    return [f"{operation} {_C10D}:{line}", _LOGGER, *(callers or ("train_step loop.py:40", "main loop.py:90"))]


ALL_REDUCE = c10d("all_reduce")
BARRIER = c10d("barrier", "end_of_epoch loop.py:77", "main loop.py:95", line=5356)
BACKWARD = [
    f"_engine_run_backward {_TORCH}/autograd/graph.py:979",
    f"backward {_TORCH}/autograd/__init__.py:395",
    f"backward {_TORCH}/_tensor.py:623",
    "train_step loop.py:41",
    "main loop.py:90",
]
INIT = [
    f"_create_c10d_store {_TORCH}/distributed/rendezvous.py:200",
    f"_env_rendezvous_handler {_TORCH}/distributed/rendezvous.py:270",
    f"init_process_group {_C10D}:1700",
    _LOGGER,
    "main loop.py:12",
]
DESTROY = [f"destroy_process_group {_C10D}:2146", "main loop.py:99"]
READING = ["read_shard data.py:88", "__iter__ data.py:40", "main loop.py:88"]
COMPUTING = ["mix model.py:31", "forward model.py:22", "train_step loop.py:38", "main loop.py:90"]
LOCKED = ["acquire_slot pool.py:14", "train_step loop.py:36", "main loop.py:90"]


@dataclass
class Ranks:
    """Some ranks of a sketch; every method returns them again."""

    sketch: Sketch
    numbers: tuple[int, ...]

    def at(
        self,
        *stacks: Sequence[str],
        arguments: Mapping[str, str] | None = None,
        state: str = "S",
        syscall: str | None = None,
        waiting_on: str = "",
        gil: bool = False,
        carrying: float | None = None,
        unanswered: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> Ranks:
        """Where they are: one stack for all looks, or one stack a look. ``arguments`` are those of its inner frame.

        Without ``syscall`` a wait of torch's is at a futex, and of the job's own code nothing is known.
        """
        in_torch = bool(stacks and stacks[0]) and "site-packages" in stacks[0][0]
        return self._are(
            stacks=[list(stack) for stack in stacks], arguments=dict(arguments or {}), state=state,
            syscall=syscall if syscall is not None else "futex" if in_torch else "", waiting_on=waiting_on, gil=gil,
            carrying=carrying, unanswered=list(unanswered),
            addresses=list(addresses),
        )  # fmt: skip

    def _are(self, **fields: Any) -> Ranks:
        """Set fields of their :class:`SketchedRank`."""
        for number in self.numbers:
            for name, value in fields.items():
                setattr(self.sketch.own(number), name, value)
        return self

    def pulse(self, *, cores: float = 0.0, switches: float = 0.0, written: float = 0.0, wchan: str = "") -> Ranks:
        """How they move, per second."""
        return self._are(cores=cores, switches=switches, written=written, wchan=wchan)

    def unread(self, error: str) -> Ranks:
        """No frames: ``denied: …``, ``stopped: …``."""
        return self._are(error=error)

    def gone(self, ago: float = 10.0) -> Ranks:
        """Their processes ended that long ago."""
        return self._are(gone=ago)

    def absent(self) -> Ranks:
        """No process of theirs was ever seen."""
        for number in self.numbers:
            self.sketch.by_number.pop(number, None)
        return self

    def env(self, **variables: str) -> Ranks:
        """Settings of theirs."""
        for number in self.numbers:
            self.sketch.own(number).env.update(variables)
        return self

    def tells(self, step: int, phase: str = "", ago: float = 0.0, results: Sequence[InsideResult] = ()) -> Ranks:
        """What their pages say: this step is done, and this phase began that long ago."""
        for number in self.numbers:
            pulse = InsidePulse(1000 + number, step, NOW - ago - 0.1, phase, NOW - ago if phase else None)
            self.sketch.own(number).inside = Inside(pulse, tuple(results))
        return self

    def process(self, **fields: Any) -> Ranks:
        """Fields of their :class:`RankProcess`."""
        for number in self.numbers:
            self.sketch.own(number).fields.update(fields)
        return self

    def waits_for_cpu(self, waited: int, allowed: str = "0-15", nice: int = 0) -> Ranks:
        """Per cent of the time in which they are ready and have no CPU, and what may keep them from one."""
        for number in self.numbers:
            self.sketch.own(number).waited = waited
        return self.process(allowed=allowed, nice=nice)

    def helpers(self, *helpers: Helper) -> Ranks:
        """Processes that they forked."""
        return self._are(helpers=helpers)


@dataclass
class SketchedRank:
    """One rank of a sketch."""

    node: str
    stacks: list[list[str]] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    helpers: tuple[Helper, ...] = ()
    state: str = "S"
    syscall: str = "futex"
    waiting_on: str = ""
    carrying: float | None = None
    """Bytes per second that its connections carry."""
    unanswered: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    wchan: str = ""
    gil: bool = False
    cores: float = 0.0
    switches: float = 0.0
    written: float = 0.0
    error: str = ""
    gone: float | None = None
    inside: Inside | None = None
    waited: int | None = None


@dataclass
class Sketch:
    """A job as a test tells it. Ranks are spread over the nodes evenly, in order."""

    world: int = 4
    nodes: int = 2
    looks: int = 5
    span: float = 4.0
    """Seconds over which the looks are spread."""
    patience: float = 2.0
    watched: float = 4.0
    live: bool = True
    age: float = 600.0
    stood_still: float | None = None
    usual_pause: float | None = None
    pauses: tuple[tuple[float, float], ...] = ()
    motion: JobMotion = field(default_factory=JobMotion)
    events: list[LogEvent] = field(default_factory=list)
    event_nodes: list[str] = field(default_factory=list)
    progress: list[CommProgress] = field(default_factory=list)
    recorders: list[RecorderDump] = field(default_factory=list)
    ras: list[Timed[RasReport]] = field(default_factory=list)
    others: list[Rank] = field(default_factory=list)
    by_number: dict[int, SketchedRank] = field(default_factory=dict)
    made_nodes: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(self.world):
            self.by_number[number] = SketchedRank(self.home(number))
        for index in range(1, self.nodes + 1):
            looked = {"ranks": source("ranks", "ok")}
            self.made_nodes[f"node{index}"] = Node(f"node{index}", seen_at=NOW, clock_offset=0.0, sources=looked)

    def home(self, number: int) -> str:
        """Node of a rank."""
        return f"node{1 + number * self.nodes // self.world}"

    def own(self, number: int) -> SketchedRank:
        """One rank."""
        return self.by_number[number]

    def ranks(self, *numbers: int) -> Ranks:
        """Choose ranks; none given are all of them."""
        return Ranks(self, numbers or tuple(sorted(self.by_number)))

    def node(self, name: str, **fields: Any) -> Sketch:
        """Set fields of a node."""
        self.made_nodes[name] = made_node(name, self.made_nodes[name], **fields)
        return self

    def gpus(self, *rows: Sequence[Mapping[str, Any]]) -> Sketch:
        """Give each rank a GPU of its own, with what it showed, oldest first."""
        made: dict[str, list[Gpu]] = {}
        for number, shown in enumerate(rows):
            own = made.setdefault(self.home(number), [])
            own.append(gpu(len(own), shown, pids=[1000 + number]))
        for name, gpus in made.items():
            self.node(name, gpus=tuple(gpus))
        return self

    def says(self, kind: str, rank: int | None = None, at: float | None = None, **data: Any) -> Sketch:
        """Add a log event of a rank; ``ago`` in ``data`` sets its time before now."""
        text = str(data.pop("text", f"line of {kind}"))
        source = str(data.pop("source", f"rank{rank}.err" if rank is not None else "dmesg"))
        node = str(data.pop("node", ""))
        ago = data.pop("ago", None)
        event = LogEvent(
            kind, NOW - ago if ago is not None else at, rank, str(data.pop("host", node)), data.pop("owner", None),
            source, int(data.pop("line", len(self.events) + 1)), text, data,
        )  # fmt: skip
        self.events.append(event)
        self.event_nodes.append(node)
        return self

    def job(self) -> Job:
        """The picture."""
        dumps: list[tuple[str, StackDump]] = []
        made = []
        for number, one in sorted(self.by_number.items()):
            made.append(self._rank(number, one))
            if self.live or one.stacks:
                dumps += [(one.node, dump) for dump in self._dumps(number, one)]
        return Job(
            now=NOW, watched=self.watched, live=self.live, nodes=dict(self.made_nodes), ranks=tuple(made),
            world_size=self.world, stacks=tuple(dump for _, dump in dumps),
            stack_ranks={(rank.node, rank.process.pid): rank.rank for rank in made},
            stack_nodes=tuple(node for node, _ in dumps), events=tuple(self.events),
            event_nodes=tuple(self.event_nodes), progress=tuple(self.progress), recorders=tuple(self.recorders),
            ras=tuple(self.ras),
            patience=self.patience, stood_still=self.stood_still, usual_pause=self.usual_pause, pauses=self.pauses,
            motion=self.motion, others=tuple(self.others),
        )  # fmt: skip

    def verdict(self) -> Verdict:
        """What the diagnosis says of it."""
        return diagnose(self.job())

    def _times(self) -> list[float]:
        step = self.span / max(1, self.looks - 1)
        return [NOW - self.span + index * step for index in range(self.looks)] if self.looks else []

    def _rank(self, number: int, one: SketchedRank) -> Rank:
        own: RankProcess = process(
            number, 1000 + number, started=NOW - self.age, world_size=self.world, env=dict(one.env),
            local_rank=number % max(1, self.world // self.nodes), local_world_size=max(1, self.world // self.nodes),
        )._replace(**one.fields)  # fmt: skip
        pulses = TimedSeries(Timed(at, self._pulse(own.pid, one, at - NOW + self.span)) for at in self._times())
        return Rank(
            one.node, own, pulses if self.live else TimedSeries(), {child.pid: child for child in one.helpers},
            None if one.gone is None else NOW - one.gone, tuple(self._gpus_of(one.node, own.pid)),
            one.inside,
        )  # fmt: skip

    def _gpus_of(self, node: str, pid: int) -> list[int]:
        gpus = self.made_nodes[node].gpus.values() if node in self.made_nodes else ()
        return [gpu.index for gpu in gpus if any(one.pid == pid for one in gpu.processes)]

    def _pulse(self, pid: int, one: SketchedRank, after: float) -> RankPulse:
        return pulse(
            pid, state=one.state, wchan=one.wchan, cpu_user=100 + one.cores * after,
            voluntary_switches=1000 + int(one.switches * after), written_bytes=int(one.written * after),
            main_cpu=50 + one.cores * after, waited=one.waited,
        )  # fmt: skip

    def _dumps(self, number: int, one: SketchedRank) -> list[StackDump]:
        if one.gone is not None or not (one.stacks or one.error):
            return []
        dumps = []
        for index, at in enumerate(self._times()):
            frames = one.stacks[index % len(one.stacks)] if one.stacks and not one.error else []
            dumps.append(
                StackDump(
                    1000 + number, 1000 + number, at, "nonblocking", one.state, one.wchan, one.syscall,
                    100 + one.cores * (at - NOW + self.span), one.error,
                    [thread(frames, one.arguments, gil=one.gil, active=one.state == "R")] if frames else [],
                    one.waiting_on, carrying=one.carrying,
                    carried=None if one.carrying is None else 1000 + int(one.carrying * (at - NOW + self.span)),
                    unanswered=one.unanswered, addresses=one.addresses,
                )
            )  # fmt: skip
        return dumps


MOVING = JobMotion(True, "4 ranks, steps 1,204 to 1,219 in 4 s", 1219, NOW - 0.2)
"""Proof that a job moves."""


def after(world: int = 4) -> Sketch:
    """Logs of a job that is over: no process and no stack is left."""
    job = Sketch(world=world, live=False, watched=0.0, looks=0)
    job.by_number.clear()
    return job


def frame(text: str) -> Frame:
    """``read_shard data.py:88`` as a frame."""
    name, _, place = text.partition(" ")
    file, _, line = place.rpartition(":")
    return Frame(name, file, int(line), native=False, arguments={})


def thread(
    frames: Sequence[str], arguments: Mapping[str, str], *, gil: bool = False, active: bool = False
) -> ThreadStack:
    """The main thread with these frames and the script below them; the arguments belong to the innermost."""
    made = [frame(text) for text in (*frames, "<module> loop.py:120")]
    made[0] = made[0]._replace(arguments=dict(arguments))
    return ThreadStack(1, 1, "MainThread", active, gil, made)


def gpu(
    index: int,
    rows: Sequence[Mapping[str, Any]] = ({},),
    *,
    pids: Sequence[int] = (),
    **fields: Any,
) -> Gpu:
    """One GPU of 80 GiB and 700 W with these rows, oldest first, and these processes on it."""
    facts = GpuFacts(
        index, f"GPU-{index}", f"00000000:{0x10 + index:02X}:00.0", "H100", 80 * GIB, 700.0, 1980, 5, 16,
    )  # fmt: skip
    samples: list[GpuSample] = [gpu_row(index, memory_used=2 * GIB, **row) for row in rows]
    series = TimedSeries(Timed(NOW - (len(samples) - 1 - i), sample) for i, sample in enumerate(samples))
    first = next((sample.ecc_uncorrected for sample in samples if sample.ecc_uncorrected is not None), None)
    users = tuple(GpuProcess(facts.bus_id, pid, 2 * GIB, None, "python") for pid in pids)
    return replace(Gpu(index, facts, series, first, users), **fields)


def port(device: str = "mlx5_0", *, states: Sequence[str] = ("ACTIVE",), phys: str = "LinkUp", **grown: int) -> Port:
    """One InfiniBand port that went through these states, and how much its counters grew."""
    facts = [
        PortFacts(device, 1, "InfiniBand", state, phys if state == states[-1] else "LinkUp", 400.0)
        for state in states
    ]  # fmt: skip
    changes = tuple(Timed(NOW - len(facts) + index, one) for index, one in enumerate(facts))
    return Port(grown, dict.fromkeys(grown, 0), facts=facts[-1], changes=changes)


def source(name: str, state: str, why: str = "", since: float = NOW - 30) -> SourceState:
    """State of one source."""
    return SourceState(name, state, why, since)


def collective(rank: int, seq: int, op: str = "all_reduce", *, done: bool = True, **fields: Any) -> Collective:
    """One entry of a flight recorder, of NCCL and the default group."""
    given = Collective(
        "0", "default_pg", seq, op, False, None, [[4096]], ["Float"],
        "completed" if done else "started", done, NOW - 700 + seq, [],
    )  # fmt: skip
    return given._replace(**fields)


def kinds(verdict: Verdict) -> list[str]:
    """Kinds in the order of the verdict."""
    return [finding.kind for finding in verdict.findings]


def alarms(verdict: Verdict) -> list[str]:
    """Kinds of all findings that accuse: neither information nor a rank that is merely waited for."""
    return [finding.kind for finding in verdict.findings if finding.severity != "info" and finding.kind != "waiting"]


def first(verdict: Verdict) -> Finding:
    """The root cause."""
    assert verdict.findings, f"{verdict.outcome}: {verdict.summary}"
    return verdict.findings[0]
