"""What the GPUs of a job look like together: all computing, all waiting in a kernel, one idle among full ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from statistics import median
from typing import Literal

from collectors.samples.gpus import GpuSample
from hangtop.diagnosis.finding import Evidence
from hangtop.diagnosis.job import Gpu, Job, Look
from hangtop.diagnosis.tables.thresholds import (
    IDLE_UTILIZATION,
    LATE_LOOKS,
    SPIN_POWER_SHARE,
    SPIN_UTILIZATION,
)
from hangtop.diagnosis.words import count, ranks_text

Shape = Literal["all_spin", "one_idle", "all_idle", "working", "mixed"]
"""``all_spin``: all at full utilisation and low flat power, as NCCL's kernels are that wait; ``one_idle``: that, but
for a few at 0 %; ``all_idle``: all at 0 %, everybody is on the CPU; ``working``: power as under load."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The shape, the ranks whose GPUs are the idle ones in ``one_idle``, and the observation as evidence."""

    shape: Shape
    idle_ranks: tuple[int, ...]
    evidence: Evidence


def fingerprint(job: Job, ranks: Collection[int] | None = None) -> Fingerprint | None:
    """Look at the GPUs of ``ranks`` (of all ranks); None where not all are known over several looks."""
    owners = [rank for rank in job.ranks if rank.gone_at is None and (ranks is None or rank.rank in ranks)]
    states: dict[int, str] = {}
    watts: list[float] = []
    newest = 0.0
    for owner in owners:
        node = job.nodes.get(owner.node)
        gpus = {gpu.index: gpu for gpu in node.gpus} if node else {}
        own = [gpus[index] for index in owner.gpus if index in gpus]
        if len(own) != 1 or not own[0].looks:
            return None
        state = _state(own[0])
        if state is None:
            return None
        states[owner.rank] = state
        newest = max(newest, own[0].looks[-1].at)
        watts.extend(look.value.power for look in own[0].looks if look.value.power is not None)
    if not states:
        return None
    by_state = {
        state: sorted(rank for rank, own_state in states.items() if own_state == state) for state in states.values()
    }
    shape = _shape(by_state, len(states))
    power = f", median {median(watts):.0f} W" if watts else ""
    text = ", ".join(f"{ranks_text(members)} {state}" for state, members in sorted(by_state.items()))
    evidence = Evidence(f"nvidia-smi, {count(len(states), 'GPU')}", newest or None, f"{text}{power}")
    return Fingerprint(shape, tuple(by_state.get("idle", ())) if shape == "one_idle" else (), evidence)


def _shape(by_state: dict[str, list[int]], total: int) -> Shape:
    spinning, idle = len(by_state.get("spinning", ())), len(by_state.get("idle", ()))
    if spinning == total:
        return "all_spin"
    if idle == total:
        return "all_idle"
    if spinning + idle == total and idle * 2 < total:
        return "one_idle"
    return "working" if len(by_state.get("computing", ())) == total else "mixed"


def _state(gpu: Gpu) -> str | None:
    """``spinning``, ``idle``, ``computing``; None when the looks are too few, ``between`` when they disagree."""
    looks = gpu.looks[-8:]
    if len(looks) < LATE_LOOKS:
        return None
    states = {_look_state(gpu, look) for look in looks}
    if None in states:
        return None
    return next(iter(states)) if len(states) == 1 else "between"


def _look_state(gpu: Gpu, look: Look[GpuSample]) -> str | None:
    sample = look.value
    if sample.utilization is None:
        return None
    if sample.utilization <= IDLE_UTILIZATION:
        return "idle"
    limit = gpu.facts.power_limit if gpu.facts else None
    if sample.utilization >= SPIN_UTILIZATION and sample.power is not None and limit:
        return "spinning" if sample.power <= SPIN_POWER_SHARE * limit else "computing"
    return "computing"
