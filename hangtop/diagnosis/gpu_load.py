"""What the GPUs of a job look like together: all computing, all waiting in a kernel, one idle among full ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
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

FEW = 256
"""GPUs whose past is read: it is kept packed."""
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
    """Look at the GPUs of ``ranks`` (of all ranks); None where not all are known over several looks.

    Of more than :data:`FEW` of them, about as many tell of several looks, the others of their newest.
    """
    wanted = None if ranks is None else frozenset(ranks)
    owners = [rank for rank in job.ranks if rank.gone_at is None and (wanted is None or rank.rank in wanted)]
    by_state: dict[str, list[int]] = defaultdict(list)
    watts: list[float] = []
    newest = 0.0
    apart = len(owners) // FEW | 1
    for place, owner in enumerate(owners):
        node = job.nodes.get(owner.node)
        gpus = {gpu.index: gpu for gpu in node.gpus} if node else {}
        own = [gpus[index] for index in owner.gpus if index in gpus]
        if len(own) != 1 or not own[0].looks:
            return None
        looks = list(own[0].looks) if place % apart == 0 else [own[0].looks[-1]]
        state = _state(own[0], looks) if place % apart == 0 else _look_state(own[0], looks[-1])
        if state is None:
            return None
        by_state[state].append(owner.rank)
        newest = max(newest, looks[-1].at)
        watts.extend(look.value.power for look in looks if look.value.power is not None)
    if not by_state:
        return None
    shape = _shape(by_state, len(owners))
    power = f", median {median(watts):.0f} W" if watts else ""
    text = ", ".join(f"{ranks_text(members)} {state}" for state, members in sorted(by_state.items()))
    evidence = Evidence(f"nvidia-smi, {count(len(owners), 'GPU')}", newest or None, f"{text}{power}")
    return Fingerprint(shape, tuple(sorted(by_state.get("idle", ()))) if shape == "one_idle" else (), evidence)


def _shape(by_state: Mapping[str, list[int]], total: int) -> Shape:
    spinning, idle = len(by_state.get("spinning", ())), len(by_state.get("idle", ()))
    if spinning == total:
        return "all_spin"
    if idle == total:
        return "all_idle"
    if spinning + idle == total and idle * 2 < total:
        return "one_idle"
    return "working" if len(by_state.get("computing", ())) == total else "mixed"


def _state(gpu: Gpu, looks: Sequence[Look[GpuSample]]) -> str | None:
    """``spinning``, ``idle``, ``computing``; None when the looks are too few, ``between`` when they disagree."""
    looks = looks[-8:]
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
