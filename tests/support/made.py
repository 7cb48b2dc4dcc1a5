"""Samples with defaults, for tests that care about one or two of their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankProcess, RankPulse
from collectors.samples.stacks import Frame, StackDump, ThreadStack
from collectors.samples.stream import Hello, Tick
from hangtop.diagnosis.node import NetworkInterface, Node


def hello(clock: float = 0.0, **fields: Any) -> Hello:
    """A stream's first line."""
    given = Hello("3.11.7", "node1", "boot-1", "x86_64", "6.1", 100, clock)
    return given._replace(**fields)


def tick(clock: float = 0.0, seq: int = 1) -> Tick:
    """End of a flush."""
    return Tick(seq, clock, 0.01, 0.1, 9 << 20)


def process(rank: int, pid: int | None = None, **fields: Any) -> RankProcess:
    """A rank's process of a job of four."""
    given = RankProcess(
        pid=1000 + rank if pid is None else pid, started=50.0, rank=rank, local_rank=rank, world_size=4,
        local_world_size=4, master_addr="node1", master_port=29500, launcher="env", run_id="", restart=None, parent=1,
        command="python train.py", cwd="/job", container="", uid=0, user="root",
        stdout="", stderr="", nccl_log="", env={},
        versions={},
    )  # fmt: skip
    return given._replace(**fields)


def pulse(pid: int, **fields: Any) -> RankPulse:
    """A pulse of a process that has done nothing yet."""
    given = RankPulse(
        pid=pid, state="S", wchan="", cpu_user=0.0, cpu_system=0.0, voluntary_switches=0,
        involuntary_switches=0, rss=1 << 20, threads=4, read_bytes=0, written_bytes=0, helpers_cpu=0.0,
    )  # fmt: skip
    return given._replace(**fields)


def gpu_row(gpu: int, **fields: Any) -> GpuSample:
    """A row of an idle GPU."""
    given = GpuSample(
        gpu, 40, None, 0, 0, 0, 80.0, 1980, 0, 5, 16, 0, False, 0, False, False, ""
    )  # fmt: skip
    return given._replace(**fields)


def stack(pid: int, *names: str, at: float = 0.0, **fields: Any) -> StackDump:
    """A look at one process whose main thread has these frames, innermost first."""
    frames = [Frame(name, "train.py", 10 + index, native=False) for index, name in enumerate(names)]
    thread = ThreadStack(1, pid, "MainThread", active=False, owns_gil=False, frames=frames)
    given = StackDump(
        pid=pid, rank_pid=pid, at=at, method="nonblocking", state="S", wchan="", syscall="", cpu=1.0, error="",
        threads=[thread],
    )  # fmt: skip
    return given._replace(**fields)


_NAMES: dict[str, Callable[[Any], object]] = {
    "gpus": lambda gpu: gpu.index,
    "ports": lambda port: f"{port.facts.device}/{port.facts.port}",
    "readings": lambda look: (look.value.source, look.value.of),
    "launchers": lambda launcher: launcher.pid,
}


def made_node(name: str = "node1", before: Node | None = None, **fields: Any) -> Node:
    """A node, or one as before, with these fields; its devices and interfaces are given one after the other."""
    for table, name_of in _NAMES.items():
        if table in fields:
            fields[table] = {name_of(each): each for each in fields[table]}
    if "interfaces" in fields:
        fields["interfaces"] = {each.name: NetworkInterface(facts=each) for each in fields["interfaces"]}
    return replace(before or Node(name), **fields)
