"""A job on paper for tests and pictures of the screen: a real Session, fed with samples, with a clock that stands."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.host import Counters, HostSample, Interface, PortFacts
from collectors.samples.logs import LogEvent, LogFile, LogLines
from collectors.samples.stacks import Frame, StackDump
from collectors.samples.stream import Settings, SourceState, Tick
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Observer, Unknown, Verdict, WaitBox
from hangtop.session.node_settings import NodeSettings
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.watching.job_sources import JobSources
from tests.support.made import gpu_row, hello, process, pulse, stack

NOW = 1_763_606_820.0
"""2025-11-20 02:47:00 UTC."""
PID = 41_000
"""Pid of rank 0; the others follow."""


@dataclass
class Clock:
    """A clock that is turned by hand."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


class PaperNodes:
    """Nodes that take note of what they are told."""

    def __init__(self) -> None:
        self.viewed: list[set[str]] = []
        """Files whose lines they were to send, oldest first."""

    def settings(self, node: str | None, settings: Settings) -> None:
        self.viewed.append(set(settings.on_view))


class PaperSession(Session):
    """Connects to nothing; remembers what it was asked for."""

    can_act = True

    def __init__(self, options: SessionOptions, clock: Clock) -> None:
        super().__init__(options, clock=clock)
        self.clock = clock
        self.nodes_told = PaperNodes()
        self.node_settings = NodeSettings(options, self.state, self.nodes_told.settings)
        self.dumped: list[tuple[set[int] | None, bool]] = []
        self.looked: list[tuple[str, StackDump]] = []
        """What a look gives."""
        self.job_sources = PaperSources(self)
        self.retried: list[str] = []
        self.started = False
        self.closed = False

    async def start(self, *, watching: bool = True) -> None:
        self.started = True

    async def close(self) -> None:
        self.closed = True
        self.recordings.close()

    def retry(self, node: str) -> None:
        """Take note of it."""
        self.retried.append(node)


class PaperSources(JobSources):
    """Notes which stacks are asked for, and gives those of the test."""

    def __init__(self, session: PaperSession) -> None:
        super().__init__(session)
        self._paper = session

    async def stacks(
        self, ranks: Collection[int] | None, *, native: bool = False, samples: int = 1, unasked: bool = False
    ) -> list[tuple[str, StackDump]]:
        self._paper.dumped.append((None if ranks is None else set(ranks), native))
        await asyncio.sleep(0)
        return self._paper.looked


@dataclass
class Paper:
    """Which job: nodes × GPUs, one rank a GPU (two ranks a node without GPUs).

    Rank ``slow`` waits for storage while the others run.
    """

    nodes: int = 4
    gpus: int = 8
    slow: int | None = None
    label: str = ""
    read_only: bool = False
    names: Sequence[str] = ()
    clock: Clock = field(default_factory=Clock)

    @property
    def each(self) -> int:
        """Ranks on a node."""
        return self.gpus or 2

    def name(self, index: int) -> str:
        return self.names[index] if self.names else f"node{index + 1}"

    def node_of(self, rank: int) -> str:
        return self.name(rank // self.each)

    def session(self, ticks: int = 20) -> PaperSession:
        """A session that has watched the job for ``ticks`` seconds, up to now."""
        options = SessionOptions(targets=("node[1-4]",), label=self.label, read_only=self.read_only)
        session = PaperSession(options, self.clock)
        end = self.clock.now
        for tick in range(ticks):
            self.clock.now = end - (ticks - 1 - tick)
            for index in range(self.nodes):
                self.feed(session, index, tick)
        return session

    def feed(self, session: Session, index: int, tick: int) -> None:
        """One flush of one node."""
        now, name = self.clock.now, self.name(index)
        samples: list[NamedTuple] = []
        if tick == 0:
            session.link(LinkChange(name, "connecting", "", now))
            session.link(LinkChange(name, "live", "", now))
            samples += self._node(index, now)
        for local in range(self.each):
            samples += self._moving(index * self.each + local, local, tick)
        samples += [
            HostSample(128, 2**40, now - 864_000, {"nvidia": "550.54.15"}, 3.2 + index / 10, 900 * 2**30, 0.4),
            Counters("mlx5_0/1", "sysfs", {"port_rcv_data": tick * 2**35, "port_xmit_data": tick * 2**34}),
            Counters("eth0", "interface", {"received": tick * 2**20, "sent": tick * 2**19}),
            Tick(tick, now, 0.004, 0.1 + tick * 0.004, 9 * 2**20),
        ]
        session.samples(name, samples)

    def _node(self, index: int, now: float) -> list[NamedTuple]:
        """What is sent once."""
        buses = list(enumerate(f"00000000:{local:02X}:00.0" for local in range(self.gpus)))
        first = index * self.each
        port = PortFacts("mlx5_0", 1, "InfiniBand", "ACTIVE", "LinkUp", 400.0)
        return [
            hello(now, hostname=self.name(index), pid=4711, kernel="6.1.0-18"),
            *(SourceState(source, "ok", "", now) for source in ("ranks", "gpus", "fabric", "network", "logs", "host")),
            SourceState("kernel", "denied", "dmesg needs root here", now),
            port,
            Interface("eth0", 9000, 25_000, True, [f"10.0.0.{index % 250 + 1}"], "physical"),
            *(
                GpuFacts(at, f"GPU-{index}-{at}", bus, "NVIDIA H100", 80 * 2**30, 700.0, 1980, 5, 16)
                for at, bus in buses
            ),
            GpuProcesses([GpuProcess(bus, PID + first + at, 2**35, 90, "python") for at, bus in buses]),
            *(self._process(first + local, local, now) for local in range(self.each)),
            *(
                LogFile(f"/logs/rank{rank}.err", f"8:{rank}", PID + rank, rank, "stderr", 4096, "", "")
                for rank in range(first, first + self.each)
            ),
        ]  # fmt: skip

    def _process(self, rank: int, local: int, now: float) -> NamedTuple:
        return process(
            rank, PID + rank, started=now - 7300, local_rank=local, world_size=self.nodes * self.each,
            local_world_size=self.each, launcher="torchrun", run_id="train", restart=0,
            command="python train.py --config llama-8b.yaml", cwd="/home/ada/run", user="ada", uid=1000,
            stdout=f"/logs/rank{rank}.out", stderr=f"/logs/rank{rank}.err", env={"NCCL_DEBUG": "WARN"},
            versions={"torch": "2.13.0"},
        )  # fmt: skip

    def _moving(self, rank: int, local: int, tick: int) -> list[NamedTuple]:
        odd = rank == self.slow
        moving = pulse(
            PID + rank, state="D" if odd else "R", wchan="nfs_wait_bit_killable" if odd else "0",
            cpu_user=100 + tick * (0.02 if odd else 0.97), voluntary_switches=500 + tick * (1 if odd else 40),
            rss=6 * 2**30, threads=64, read_bytes=tick * 2**20, helpers_cpu=50 + tick * 0.3,
        )  # fmt: skip
        if not self.gpus:
            return [moving]
        wave = (rank * 7 + tick * 3) % 9
        row = gpu_row(
            local, temperature=38 if odd else 61 + wave, utilization=0 if odd else 100 - wave,
            memory_used=(58 + wave) * 2**30, power=118.0 if odd else 640.0 + wave, sm_clock=1755 if odd else 1980,
            event_reasons=0x4,
        )  # fmt: skip
        return [moving, row]

    def stacks(self, at: float = NOW - 4) -> list[tuple[str, StackDump]]:
        """All ranks in all_reduce, but the slow one in its reader."""
        torch = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
        script = "/home/ada/run/train.py"
        tail = [Frame("train", script, 203, False), Frame("<module>", script, 311, False)]
        waiting = [Frame("all_reduce", torch, 2810, False), Frame("step", script, 207, False), *tail]
        reader = Frame("read_shard", "/home/ada/run/data.py", 88, False)
        reading = [reader, Frame("__next__", "/home/ada/run/loader.py", 51, False), *tail]
        dumps = []
        for rank in range(self.nodes * self.each):
            dump = stack(PID + rank, at=at, cpu=100.0)
            frames = reading if rank == self.slow else waiting
            threads = [dump.threads[0]._replace(frames=frames, active=rank != self.slow)]
            dumps.append((self.node_of(rank), dump._replace(threads=threads)))
        return dumps


def say(session: Session, node: str, rank: int, at: float, *lines: str) -> None:
    """Let a rank's log grow."""
    session.samples(node, [LogLines(f"/logs/rank{rank}.err", rank, at, list(lines), 0)])


def kernel_line(session: Session, node: str, at: float, text: str) -> None:
    """Let a node's kernel say something."""
    session.samples(node, [LogEvent("kernel.xid", at, None, node, None, "dmesg", 0, text, {"code": 79})])


def hung(rank: int = 11, node: str = "node2") -> Verdict:
    """A verdict with a root cause and a consequence."""
    reader = "read_shard (data.py:88)"
    cause = Finding(
        "rank_stuck_in_data", "critical", 0.93,
        f"rank {rank} on {node} is in {reader} while 31 ranks wait in all_reduce",
        ranks=(rank,), nodes=(node,),
        evidence=(
            Evidence(
                Observer.STACKS, f"py-spy rank {rank}", NOW - 4,
                f"{reader}\n__next__ (loader.py:51)\ntrain (train.py:203)",
            ),
            Evidence(
                Observer.PROCESS, f"/proc of rank {rank}", NOW - 1, "state D, wchan nfs_wait_bit_killable for 64 s"
            ),
        ),
        advice="Look at the storage behind /data and at the worker processes; num_workers=0 confirms.",
        next=(NextStep("d", f"hangtop stacks {node} --rank {rank}"), NextStep("!", f"ssh {node}")),
    )  # fmt: skip
    victims = tuple(other for other in range(32) if other != rank)
    told = Evidence(Observer.LOG, "/logs/rank0.err:4", NOW - 3, "[rank0]: NCCL WARN Watchdog caught collective timeout")
    consequence = Finding(
        "watchdog_timeout", "warning", 0.5, "the NCCL watchdog of 31 ranks will end them in 412 s",
        ranks=victims, evidence=(told,), cause="rank_stuck_in_data",
    )  # fmt: skip
    waiting = "waits in all_reduce at step (train.py:207)"
    boxes = (
        WaitBox((rank,), (node,), f"in {reader}", True),
        WaitBox(victims, tuple(f"node{at}" for at in range(1, 5)), waiting, False, (0,), "all_reduce #134 in dp"),
    )  # fmt: skip
    unknown = Unknown("kernel log", ("node1", "node2"), "dmesg needs root here")
    return Verdict(
        "hung", f"rank {rank} on {node} holds up 31 others: {reader}", (cause, consequence), (unknown,), boxes
    )
