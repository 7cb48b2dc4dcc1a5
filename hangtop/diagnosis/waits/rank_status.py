"""The evidence on one rank, put together once: what its stacks, its process and its GPU say, and since when.

The state of a rank is what its activity says (:func:`with_activity`); ranks at the same line may tell more of it
(:mod:`hangtop.diagnosis.waits.statuses`), and :func:`timed` adds for how long it has been so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Literal, NamedTuple

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpus import Load
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.states import Activity, Kind, Meaning
from hangtop.diagnosis.tables.thresholds import (
    LATE_LOOKS,
    LOOKS_SLACK_S,
    LOOKS_SLACK_SHARE,
    STOOD_STILL_S,
    UNINTERRUPTIBLE_S,
)
from hangtop.diagnosis.waits.process_motion import HALTED, NO_MOTION, Motion, motion, state_of

State = Literal["waiting", "on_gpu", "working", "leaving", "stopped", "uninterruptible", "gone", "missing", "unseen"]
"""What a rank is found to do, as far as it concerns the others.

``waiting`` for other ranks; ``on_gpu``: waits for its own GPU, and nothing tells what that waits for; ``working``:
anything else in its program, blocked or busy, or its GPU computes; ``leaving``: shutting down;
``stopped`` (state T or t) and ``uninterruptible`` (state D) over several looks; ``gone``: seen before, not there now;
``missing``: never seen though WORLD_SIZE counts it, or on a node that has fallen silent; ``unseen``: alive, but no
stack was taken or read.
"""
WAITS: tuple[State, ...] = ("waiting", "on_gpu")
"""States of ranks that wait for something which is not their own to do."""
HALTED_AFTER = {"T": 0.0, "t": 10.0, "D": UNINTERRUPTIBLE_S}
"""Seconds after which a state counts. Ours for t: another program's look at the stacks takes seconds on a loaded
machine."""


class RankStatus(NamedTuple):
    """One rank, its process, and what it does."""

    rank: int
    node: str
    state: State
    process: Rank | None = None
    activity: Activity | None = None
    """Over all recent looks."""
    motion: Motion = NO_MOTION
    """How much its process moved; nothing where nobody dumped it and it looks ordinary."""
    held: float = 0.0
    """Seconds for which it was seen in this state, at this place."""
    load: Load = "unknown"
    """What its own GPU does."""
    frozen: bool | None = None
    """It stayed at one point over the looks; None when that cannot be told (it spins, or one look)."""

    @property
    def readings(self) -> tuple[Activity, ...]:
        """What each look alone says, oldest first."""
        return () if self.activity is None else self.activity.readings

    @property
    def where(self) -> str:
        """``read_shard (data.py:88)``, or what is known instead."""
        return "" if self.activity is None else self.activity.where or self.activity.label

    @property
    def kind(self) -> Kind:
        """The kind of what it does; ``device`` where no frame was read, as its GPU may tell."""
        return "device" if self.activity is None or self.activity.error else self.activity.kind

    @property
    def pid(self) -> int | None:
        """Process id on its node."""
        return self.process.process.pid if self.process else None

    @property
    def present(self) -> bool:
        """A process of this rank is there."""
        return self.state not in ("gone", "missing")

    @property
    def read(self) -> bool:
        """Its frames could be read; else its GPU and its process alone tell what it does."""
        return self.activity is not None and not self.activity.error

    @property
    def in_c_code(self) -> bool:
        """Its main thread sleeps in C code that its program called: a lock, or an operation begun earlier."""
        doing = self.activity
        in_code = doing is not None and (doing.kind, doing.waits, doing.syscall) == ("code", "unknown", "futex")
        return in_code and self.state == "working"


def nodes_of(statuses: Iterable[RankStatus]) -> tuple[str, ...]:
    """Nodes of these ranks, as far as they are known."""
    return tuple(sorted({one.node for one in statuses if one.node}))


def in_state(statuses: Mapping[int, RankStatus], *states: State) -> tuple[RankStatus, ...]:
    """Ranks in any of these states, in order."""
    return tuple(one for one in statuses.values() if one.state in states)


def stands(job: Job) -> bool:
    """Whether a live job has stood still for longer than belongs to its rhythm."""
    return job.live and (job.stood_still or 0.0) >= STOOD_STILL_S


def status_of(job: Job, number: int, node: str, dumps: list[StackDump], process: Rank | None, load: Load) -> RankStatus:
    """What a rank does whose process is there, or of which there are dumps; not yet for how long."""
    letter = state_of(process.looks[-1].value) if process and process.looks else ""
    status = RankStatus(number, process.node if process else node, "unseen", process, load=load)
    if not dumps and letter and letter not in HALTED:  # as nearly all of thousands, every second
        return status
    plain = [dump for dump in dumps if dump.method != "native"] or dumps
    doing = activity(plain) if dumps else None
    told = None if doing is None else _at_the_store(_by_native(doing, dumps) or doing, process)
    if process is not None and process.looks:
        placed = doing.since if doing is not None and len(doing.readings) >= LATE_LOOKS else -inf
        moved = motion(process, max(placed, job.now - (job.stood_still or 0.0) if stands(job) else placed))
    elif doing is not None:
        moved = Motion(cpu=doing.cpu, state=doing.state, wchan=doing.wchan)
    else:
        moved = NO_MOTION
    return with_activity(status._replace(motion=moved), told)


def _by_native(doing: Activity, dumps: Sequence[StackDump]) -> Activity | None:
    """What looks with native frames at the same place add; None where there are none, or they tell no more.

    Native frames change the folded place of a rank that has not moved, so they must not count as a look of their own.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    told = activity(native) if native else None
    return None if told is None or told.error or told.where != doing.where else with_meaning(doing, told)


def _at_the_store(doing: Activity, process: Rank | None) -> Activity:
    """The same; a call on a connection to the job's own store waits for what other ranks set there.

    ``store.wait`` of a program's own store has no frame of torch: the port at the far end tells it.
    """
    port = process.process.master_port if process is not None else None
    at_store = port is not None and doing.meaning is Meaning.NETWORK and doing.target.port == port and not doing.error
    return doing.taken_as(Meaning.STORE) if at_store else doing


def with_meaning(doing: Activity, told: Activity) -> Activity:
    """Take the meaning from a look with native frames at the same place; time and movement from the others."""
    return doing._replace(
        meaning=told.meaning, op=told.op, waits=told.waits, context=doing.context | told.context,
        by_frame=told.by_frame, by_name=told.by_name, native=told.native, frames=told.frames,
    )  # fmt: skip


def with_activity(status: RankStatus, doing: Activity | None) -> RankStatus:
    """The same rank with what its stacks, or something besides, tell of it, and the state that this makes."""
    return status._replace(activity=doing, state=_state(doing, status.motion, status.load))


def _state(doing: Activity | None, moved: Motion, load: Load) -> State:
    if moved.halted_for > 0.0 and moved.halted_for >= HALTED_AFTER[moved.state]:
        return "uninterruptible" if moved.state == "D" else "stopped"
    if doing is None or doing.error:
        told: dict[str, State] = {"stopped": "stopped", "gone": "gone"}
        return "unseen" if doing is None else told.get(doing.error, "unseen")
    if doing.kind == "shutdown":
        return "leaving"
    if not waits_for_others(doing, moved) or load == "computing":
        return "working"  # a rank that waits while its own GPU computes is not held up by anybody
    return "waiting" if doing.kind != "device" or load == "spinning" else "on_gpu"


def waits_for_others(doing: Activity, moved: Motion = NO_MOTION) -> bool:
    """Whether it waits for other ranks, as far as one can tell.

    Inside ``backward`` or a wrapper's ``forward`` a rank that uses no CPU waits: gloo and the reducer block there in
    C++. A rank that waits for its own GPU counts as waiting too: its kernels may be NCCL's, and the GPU tells.
    """
    if doing.waits == "unknown" and doing.kind in ("backward", "forward"):
        return moved.blocked or (moved.cpu is None and doing.state == "S")
    return doing.waits == "peers" or doing.kind == "device"


# --- for how long ------------------------------------------------------------------------------------------------


def seen_after(due: float) -> float:
    """What is left of this when the first and the last look have cut off their part of the time that was watched."""
    return due - min(LOOKS_SLACK_S, LOOKS_SLACK_SHARE * due)


def timed(job: Job, status: RankStatus) -> RankStatus:
    """The same rank with the seconds for which it was seen to stand there, and whether it stayed at one point.

    A look since the job stopped shows the whole of that time, but of a rank that was seen elsewhere since. A rank that
    spins at one place in every look may have waited many times: no longer than since the last step.
    """
    doing, moved = status.activity, status.motion
    if doing is None or status.state == "unseen":
        return status._replace(held=max(status.held, moved.halted_for))
    still = (job.stood_still or 0.0) if job.live else 0.0
    still = still if job.now - doing.at <= still and not doing.moving else 0.0
    own_step = _stepped_at(job, status)
    step = own_step or job.motion.last_step_at
    held = max(still, doing.at - doing.since if len(doing.readings) >= LATE_LOOKS else 0.0)
    if status.state in ("stopped", "uninterruptible"):
        held = max(held, moved.halted_for)
    elif status.state in WAITS and job.live and step is not None and not moved.blocked:
        held = min(held, max(0.0, doing.at - step))
    return status._replace(held=held, frozen=_frozen(job, status, doing, still, own_step))


def _frozen(job: Job, status: RankStatus, doing: Activity, still: float, own_step: float | None) -> bool | None:
    """Tell whether a rank stood at one point over the looks.

    The job's own clock of progress tells, where it stood for as long as the looks span: a rank that spins looks the
    same whether its wait ends or not. So does its own log, which goes on, or counts no more while its GPU spins. Else a
    wait on the CPU that lasts causes no switch at all: switches of the main thread mean that one wait ended and the
    next began, however alike the looks are, unless it polls.
    """
    moved, least = status.motion, min(seen_after(job.patience), max(STOOD_STILL_S, job.usual_pause or 0.0))
    if still >= least and not (doing.moving or job.motion.moving):
        return True
    if own_step is not None and own_step > doing.since:
        return False
    if own_step is not None and status.load == "spinning" and job.now - own_step >= job.alarm_after:
        return not doing.moving
    if len(status.readings) < LATE_LOOKS:
        return None
    if doing.moving or (status.state in WAITS and moved.wakes):
        return False
    return True if moved.blocked and not moved.wakes else None


def _stepped_at(job: Job, status: RankStatus) -> float | None:
    """When a rank's own log was last seen to count a step; None where none was."""
    node, pid = job.nodes.get(status.node), status.pid
    own = [] if node is None else [log.grown_at for log in node.steps.values() if log.count.pid == pid]
    return max((at for at in own if at is not None), default=None)
