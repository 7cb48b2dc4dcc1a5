"""The status of one rank: the evidence of its stacks, its process and its GPU, combined once.

:func:`with_activity` derives the state of a rank from its activity. Ranks at the same line may change the state
(:mod:`hangtop.diagnosis.waits.statuses`), and :func:`timed` adds how long it has lasted.
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
from hangtop.diagnosis.tables.thresholds import LATE_SAMPLES, STOOD_STILL_S
from hangtop.diagnosis.waits.process_motion import HALTED, NO_MOTION, Motion, motion, state_of

State = Literal["waiting", "on_gpu", "working", "leaving", "stopped", "uninterruptible", "gone", "missing", "unseen"]
"""State of a rank, as it matters to the other ranks.

``waiting``: for other ranks; ``on_gpu``: for its own GPU, and no evidence shows what runs there; ``working``: anything
else in its program, blocked or busy, or its GPU computes; ``leaving``: shutting down; ``stopped`` (state letters T, t)
and ``uninterruptible`` (D): over several samples; ``gone``: its process has ended; ``missing``: never seen although
WORLD_SIZE counts the rank, or on a node that no longer answers; ``unseen``: alive, but without a dump or without a
readable stack.
"""
WAITS: tuple[State, ...] = ("waiting", "on_gpu")
"""States of ranks that wait for other ranks or for their GPU."""
HALTED_AFTER = {"T": 0.0, "t": 10.0, "D": 2.0}
"""Seconds after which a state letter counts. Ours: another program's stack dump takes seconds on a loaded machine;
ordinary disk reads leave state D within milliseconds, a healthy node under write-back within a second."""
SAMPLES_SLACK_S = 1.0
SAMPLES_SLACK_SHARE = 0.25
"""Ours: samples span less than the watch: a short watch loses up to a quarter at its ends, a long one a second."""


class RankStatus(NamedTuple):
    """One rank, its process, and what it does."""

    rank: int
    node: str
    state: State
    process: Rank | None = None
    activity: Activity | None = None
    """Over all recent samples."""
    motion: Motion = NO_MOTION
    """Motion of its process; :data:`NO_MOTION` without dumps in an ordinary state."""
    held: float = 0.0
    """Seconds for which the rank was seen in this state at this place."""
    load: Load = "unknown"
    """Load of its own GPU."""
    frozen: bool | None = None
    """Whether the rank stayed at one point over the samples; None if unknown (it spins, or there is one sample)."""

    @property
    def readings(self) -> tuple[Activity, ...]:
        """The activity in each single sample, oldest first."""
        return () if self.activity is None else self.activity.readings

    @property
    def where(self) -> str:
        """``read_shard (data.py:88)``, or the label of its activity without a user frame; empty without dumps."""
        return "" if self.activity is None else self.activity.where or self.activity.label

    @property
    def kind(self) -> Kind:
        """Kind of its activity; ``device`` if no frame was read: then the GPU alone may show a wait."""
        return "device" if self.activity is None or self.activity.error else self.activity.kind

    @property
    def pid(self) -> int | None:
        """Process id on its node."""
        return self.process.process.pid if self.process else None

    @property
    def present(self) -> bool:
        """Whether the rank is neither gone nor missing."""
        return self.state not in ("gone", "missing")

    @property
    def read(self) -> bool:
        """Whether its frames were read; else only its GPU and its process show what it does."""
        return self.activity is not None and not self.activity.error

    @property
    def in_c_code(self) -> bool:
        """Whether its main thread sleeps in C code called by the program: a lock, or an operation begun earlier."""
        doing = self.activity
        in_code = doing is not None and (doing.kind, doing.waits, doing.syscall) == ("code", "unknown", "futex")
        return in_code and self.state == "working"


def nodes_of(statuses: Iterable[RankStatus]) -> tuple[str, ...]:
    """Known nodes of these ranks, sorted."""
    return tuple(sorted({status.node for status in statuses if status.node}))


def in_state(statuses: Mapping[int, RankStatus], *states: State) -> tuple[RankStatus, ...]:
    """Ranks in any of these states, in order."""
    return tuple(status for status in statuses.values() if status.state in states)


def stands(job: Job) -> bool:
    """Whether a live job has stood still for longer than the pauses of its rhythm."""
    return job.live and (job.stood_still or 0.0) >= STOOD_STILL_S


def status_of(job: Job, number: int, node: str, dumps: list[StackDump], process: Rank | None, load: Load) -> RankStatus:
    """The status of a rank with a process or with dumps, without ``held`` and ``frozen``."""
    letter = state_of(process.pulses[-1].value) if process and process.pulses else ""
    status = RankStatus(number, process.node if process else node, "unseen", process, load=load)
    if not dumps and letter and letter not in HALTED:  # nearly all of thousands of ranks, every second
        return status
    plain = [dump for dump in dumps if dump.method != "native"] or dumps
    doing = activity(plain) if dumps else None
    if doing is not None:
        doing = _at_the_store(_by_native(doing, dumps) or doing, process)
    if process is not None and process.pulses:
        placed = doing.since if doing is not None and len(doing.readings) >= LATE_SAMPLES else -inf
        moved = motion(process, max(placed, job.now - (job.stood_still or 0.0) if stands(job) else placed))
    elif doing is not None:
        moved = Motion(cpu=doing.cpu, state=doing.state, wchan=doing.wchan)
    else:
        moved = NO_MOTION
    return with_activity(status._replace(motion=moved), doing)


def _by_native(doing: Activity, dumps: Sequence[StackDump]) -> Activity | None:
    """``doing`` with the meaning from native dumps at the same place; None without such dumps.

    Native frames change the folded place of a rank that has not moved, so a native dump must not count as a sample.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    other = activity(native) if native else None
    return None if other is None or other.error or other.where != doing.where else with_meaning(doing, other)


def _at_the_store(doing: Activity, process: Rank | None) -> Activity:
    """The same activity, taken as a store wait if its call is on a connection to the job's store.

    ``store.wait`` in the program's own code has no frame of torch: the store is known by MASTER_PORT at the far end.
    """
    port = process.process.master_port if process is not None else None
    at_store = port is not None and doing.meaning is Meaning.NETWORK and doing.target.port == port and not doing.error
    return doing.taken_as(Meaning.STORE) if at_store else doing


def with_meaning(doing: Activity, other: Activity) -> Activity:
    """``doing`` with the meaning and the frames of ``other``, an activity at the same place."""
    return doing._replace(
        meaning=other.meaning, op=other.op, waits=other.waits, context=doing.context | other.context,
        by_frame=other.by_frame, by_name=other.by_name, native=other.native, frames=other.frames,
    )  # fmt: skip


def with_activity(status: RankStatus, doing: Activity | None) -> RankStatus:
    """The same rank with this activity and the state that follows."""
    return status._replace(activity=doing, state=_state(doing, status.motion, status.load))


def _state(doing: Activity | None, moved: Motion, load: Load) -> State:
    if moved.halted_for > 0.0 and moved.halted_for >= HALTED_AFTER[moved.state]:
        return "uninterruptible" if moved.state == "D" else "stopped"
    if doing is None or doing.error:
        by_error: dict[str, State] = {"stopped": "stopped", "gone": "gone"}
        return "unseen" if doing is None else by_error.get(doing.error, "unseen")
    if doing.kind == "shutdown":
        return "leaving"
    if not waits_for_others(doing, moved) or load == "computing":
        return "working"  # no other rank holds up a rank whose own GPU computes
    return "waiting" if doing.kind != "device" or load == "spinning" else "on_gpu"


def waits_for_others(doing: Activity, moved: Motion = NO_MOTION) -> bool:
    """Whether a rank waits for other ranks, or may do so.

    A rank inside ``backward`` or a wrapper's ``forward`` waits if it uses no CPU: gloo and the reducer block there in
    C++. A wait for its own GPU counts as well, because the kernel may be NCCL's: the load of the GPU decides later.
    """
    if doing.waits == "unknown" and doing.kind in ("backward", "forward"):
        return moved.blocked or (moved.cpu is None and doing.state == "S")
    return doing.waits == "peers" or doing.kind == "device"


# --- for how long ------------------------------------------------------------------------------------------------


def seen_after(due: float) -> float:
    """A limit in seconds, less the time at both ends of a watch that samples do not cover."""
    return due - min(SAMPLES_SLACK_S, SAMPLES_SLACK_SHARE * due)


def timed(job: Job, status: RankStatus) -> RankStatus:
    """The same rank with ``held`` and ``frozen``.

    A sample after the job stopped covers the whole stand-still, unless others show the rank elsewhere. A rank that
    spins at one place in every sample may be in its next wait, so it is held no longer than since the last step.
    """
    doing, moved = status.activity, status.motion
    if doing is None or status.state == "unseen":
        return status._replace(held=max(status.held, moved.halted_for))
    still = (job.stood_still or 0.0) if job.live else 0.0
    still = still if job.now - doing.at <= still and not doing.moving else 0.0
    own_step = _stepped_at(job, status)
    step = own_step or job.motion.last_step_at
    held = max(still, doing.at - doing.since if len(doing.readings) >= LATE_SAMPLES else 0.0)
    if status.state in ("stopped", "uninterruptible"):
        held = max(held, moved.halted_for)
    elif status.state in WAITS and job.live and step is not None and not moved.blocked:
        held = min(held, max(0.0, doing.at - step))
    return status._replace(held=held, frozen=_frozen(job, status, doing, still, own_step))


def _frozen(job: Job, status: RankStatus, doing: Activity, still: float, own_step: float | None) -> bool | None:
    """Whether a rank stood at one point over the samples; None if unknown.

    A long stand-still of the whole job comes first, because a spinning rank looks the same whether its wait ends or
    not. The rank's own log comes second: new steps prove motion, and no more steps while its GPU spins prove a stand.
    Last, one long wait on the CPU causes no context switches: if the main thread switches and does not poll, one wait
    ended and the next began, even between equal samples.
    """
    moved, least = status.motion, min(seen_after(job.patience), max(STOOD_STILL_S, job.usual_pause or 0.0))
    if still >= least and not (doing.moving or job.motion.moving):
        return True
    if own_step is not None and own_step > doing.since:
        return False
    if own_step is not None and status.load == "spinning" and job.now - own_step >= job.alarm_after:
        return not doing.moving
    if len(status.readings) < LATE_SAMPLES:
        return None
    if doing.moving or (status.state in WAITS and moved.wakes):
        return False
    return True if moved.blocked and not moved.wakes else None


def _stepped_at(job: Job, status: RankStatus) -> float | None:
    """When a rank's own log last counted a step; None if it never did."""
    node, pid = job.nodes.get(status.node), status.pid
    grown = [] if node is None else [log.grown_at for log in node.steps.values() if log.count.pid == pid]
    return max((at for at in grown if at is not None), default=None)
