"""Figures that the state does not hold but implies: rates, shares and steps.

Nodes send only what changed. So a value holds until the next look, and a rate whose last look is old is zero as long as
the node still ticks.
"""

from __future__ import annotations

from functools import lru_cache

from collectors.samples.gpus import GpuSample
from collectors.samples.inside import InsidePulse
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.node import Gpu, Node, Port, Rank, Steps
from hangtop.diagnosis.tables.thresholds import BAD_BITS, BAD_EVENT_REASONS
from tui.ordering.rows import RankRow

SILENT_TICKS = 3.0
"""Ticks that may fail to come before a node's numbers look stale."""
WITHOUT_CPU = 50
"""Per cent of the time that a rank waits for a CPU from which on state R does not say that it runs."""


def is_stale(node: Node, now: float, interval: float) -> bool:
    """True when what is known of the node is old: the link is down, or its ticks have stopped coming."""
    if node.link not in {"live", "limited", "offline"}:
        return True
    return node.link != "offline" and node.seen_at is not None and now - node.seen_at > SILENT_TICKS * interval + 1.0


def source_is_stale(node: Node, source: str) -> bool:
    """True when the source stopped answering: its last values are still shown, but as old ones."""
    state = node.sources.get(source)
    return state is not None and state.state in {"late", "failed", "denied"}


def cpu_percent(rank: Rank, node: Node, interval: float) -> float | None:
    """CPU of a rank's own process over its last tick: 100 is one core; 0 when the node ticked on without a new look."""
    looks, heard = rank.looks[-2:], node.seen_at  # how many there are in all is told only by unpacking them
    if rank.gone_at is not None:
        return None
    if looks and heard is not None and heard - looks[-1].at > 2.5 * interval:
        return 0.0
    if len(looks) < 2:
        return None
    before, last = looks
    span = last.at - before.at
    if span > 2.5 * interval:  # nothing was sent in between, so it moved only within the last tick
        span = 1.5 * interval
    taken = _cpu_seconds(last.value) - _cpu_seconds(before.value)
    return max(0.0, 100.0 * taken / span) if span > 0 else None


def _cpu_seconds(pulse: RankPulse) -> float:
    return pulse.cpu_user + pulse.cpu_system


def state_of(rank: Rank) -> str | None:
    """Letter of its state; ``r`` where it is ready to run, and is without a CPU for most of the time."""
    pulse = rank.looks.newest
    if pulse is None:
        return None
    return "r" if pulse.state == "R" and rank.waited_for_cpu >= WITHOUT_CPU else pulse.state


def inside_of(row: RankRow) -> InsidePulse | None:
    """What a living rank says of itself by ``hangtop.inside``."""
    inside = row.rank.inside
    return None if inside is None or row.rank.gone_at is not None else inside.pulse


def _steps_of(row: RankRow) -> Steps | None:
    """The log that tells of a rank's steps."""
    pid = row.rank.process.pid
    return next((log for log in row.node.steps.values() if log.count.pid == pid and log.told), None)


def last_step(row: RankRow) -> float | None:
    """The last training step that a rank said is done: by ``hangtop.inside``, or by its log."""
    inside, log = inside_of(row), _steps_of(row)
    if inside is not None and inside.step is not None:
        return inside.step
    return None if log is None else log.told[-1][1]


def seconds_a_step(row: RankRow) -> float | None:
    """How long a step takes, as the last ones of its log tell."""
    log = _steps_of(row)
    if log is None or len(log.told) < 2:
        return None
    (began, first, _), (ended, last, _) = log.told[0], log.told[-1]
    return (ended - began) / (last - first) if last > first and ended > began else None


def row_of(gpu: Gpu) -> GpuSample | None:
    """The latest row of a GPU; None also while nvidia-smi says something else in its place."""
    return gpu.looks.newest if gpu.fault is None else None


def memory_percent(gpu: Gpu) -> float | None:
    """Share of the GPU's memory in use."""
    row = row_of(gpu)
    total = gpu.facts.memory_total if gpu.facts else None
    return None if row is None or row.memory_used is None or not total else 100.0 * row.memory_used / total


TRAFFIC = ("_data", "_packets", "_wait")
"""How names of counters end that tell of traffic or pressure: growth of all others that nodes send is trouble."""


def grown_errors(port: Port) -> dict[str, int]:
    """Error counters that grew while watched, the most grown first."""
    now, first = port.counters, port.first
    grown = [(name, by) for name in now if (by := now[name] - first.get(name, now[name])) > 0]
    errors = [item for item in grown if not item[0].endswith(TRAFFIC)]
    return dict(sorted(errors, key=lambda item: (-item[1], item[0])))


_REASONS = {**BAD_EVENT_REASONS, 0x4: "power cap", 0x2: "app clocks", 0x10: "sync boost", 0x1: "idle"}


@lru_cache(256)
def throttling(reasons: int | None) -> tuple[str, bool]:
    """What a clock event mask says, the worst first, and whether that is trouble (power cap under load is normal)."""
    if reasons is None:
        return "–", False
    words = [word for bit, word in _REASONS.items() if reasons & bit]
    return ", ".join(words), bool(reasons & BAD_BITS)
