"""Figures derived from the state: rates, shares and steps.

Nodes send only what changed. So a value is valid until the next sample, and a rate with an old last sample is zero
while the node still ticks.
"""

from __future__ import annotations

from functools import lru_cache

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import InsidePulse, RankPulse
from hangtop.diagnosis.node import Gpu, Node, Port, Rank, Steps
from hangtop.diagnosis.tables.thresholds import BAD_BITS, BAD_EVENT_REASONS
from tui.ordering.rows import RankRow

SILENT_TICKS = 3.0
"""Missing ticks after which a node's values count as stale."""
WITHOUT_CPU = 50
"""Per cent of the time spent waiting for a CPU, from which state R does not mean that a rank runs."""


def is_stale(node: Node, now: float, interval: float) -> bool:
    """True if the node's values are old: its link is down, or its ticks are missing."""
    if not node.readable:
        return True
    return node.link != "offline" and node.seen_at is not None and now - node.seen_at > SILENT_TICKS * interval + 1.0


def source_is_stale(node: Node, source: str) -> bool:
    """True if the source stopped answering: its last values are shown as old."""
    state = node.sources.get(source)
    return state is not None and state.state in {"late", "failed", "denied"}


def cpu_percent(rank: Rank, node: Node, interval: float) -> float | None:
    """CPU of a rank's own process over its last tick: 100 is one core; 0 if the node ticked on without a new sample."""
    pulses, heard = rank.pulses[-2:], node.seen_at  # counting all of them would unpack them
    if rank.gone_at is not None:
        return None
    if pulses and heard is not None and heard - pulses[-1].at > 2.5 * interval:
        return 0.0
    if len(pulses) < 2:
        return None
    before, last = pulses
    span = last.at - before.at
    if span > 2.5 * interval:  # nothing was sent in between, so the CPU was used within the last tick
        span = 1.5 * interval
    taken = _cpu_seconds(last.value) - _cpu_seconds(before.value)
    return max(0.0, 100.0 * taken / span) if span > 0 else None


def _cpu_seconds(pulse: RankPulse) -> float:
    return pulse.cpu_user + pulse.cpu_system


def state_of(rank: Rank) -> str | None:
    """Letter of the process state; ``r`` if it is runnable but waits for a CPU most of the time."""
    pulse = rank.pulses.newest
    if pulse is None:
        return None
    return "r" if pulse.state == "R" and rank.waited_for_cpu >= WITHOUT_CPU else pulse.state


def inside_of(row: RankRow) -> InsidePulse | None:
    """The newest report of ``hangtop.inside`` from a living rank."""
    inside = row.rank.inside
    return None if inside is None or row.rank.gone_at is not None else inside.pulse


def _steps_of(row: RankRow) -> Steps | None:
    """The log that counts a rank's steps."""
    pid = row.rank.process.pid
    return next((log for log in row.node.steps.values() if log.count.pid == pid and log.lines), None)


def last_step(row: RankRow) -> float | None:
    """The last finished training step of a rank, from ``hangtop.inside`` or its log."""
    inside, log = inside_of(row), _steps_of(row)
    if inside is not None and inside.step is not None:
        return inside.step
    return None if log is None else log.lines[-1][1]


def seconds_a_step(row: RankRow) -> float | None:
    """Mean seconds per step over the last steps in its log."""
    log = _steps_of(row)
    if log is None or len(log.lines) < 2:
        return None
    (began, first, _), (ended, last, _) = log.lines[0], log.lines[-1]
    return (ended - began) / (last - first) if last > first and ended > began else None


def row_of(gpu: Gpu) -> GpuSample | None:
    """The newest sample of a GPU; None if nvidia-smi reports a fault instead."""
    return gpu.samples.newest if gpu.fault is None else None


def memory_percent(gpu: Gpu) -> float | None:
    """Share of the GPU's memory in use."""
    row = row_of(gpu)
    total = gpu.facts.memory_total if gpu.facts else None
    return None if row is None or row.memory_used is None or not total else 100.0 * row.memory_used / total


TRAFFIC = ("_data", "_packets", "_wait")
"""Suffixes of counters of traffic or pressure; growth of any other counter is an error."""


def grown_errors(port: Port) -> dict[str, int]:
    """Error counters that grew since the first sample, with their growth, largest first."""
    errors = [(name, by) for name, by in port.grown.items() if by > 0 and not name.endswith(TRAFFIC)]
    return dict(sorted(errors, key=lambda item: (-item[1], item[0])))


_REASONS = {**BAD_EVENT_REASONS, 0x4: "power cap", 0x2: "app clocks", 0x10: "sync boost", 0x1: "idle"}


@lru_cache(256)
def throttling(reasons: int | None) -> tuple[str, bool]:
    """Text of a clock event mask, worst reason first, and whether it is a problem (a power cap under load is not)."""
    if reasons is None:
        return "–", False
    words = [word for bit, word in _REASONS.items() if reasons & bit]
    return ", ".join(words), bool(reasons & BAD_BITS)
