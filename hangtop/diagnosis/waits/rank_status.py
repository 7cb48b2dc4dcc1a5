"""Where one rank stands: what its stacks and its process say together, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Literal, NamedTuple

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpu_load import Load
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.torn import unheld, untorn
from hangtop.diagnosis.tables.thresholds import (
    LATE_LOOKS,
    STILL_SWITCHES_PER_S,
    STOOD_STILL_S,
    TRACED_S,
    UNINTERRUPTIBLE_S,
    WORK_BYTES_PER_S,
)  # fmt: skip
from hangtop.diagnosis.waits.held import held_for
from hangtop.diagnosis.waits.process_motion import HALTED, Motion, Moves, comes_back, polls, state_of, wakes
from hangtop.diagnosis.waits.readings import NOTHING_SEEN, Readings, by_native, with_meaning
from hangtop.diagnosis.waits.traced import held_by_a_tracer

State = Literal[
    "waiting", "on_gpu", "working", "leaving", "stopped", "uninterruptible", "refused", "gone", "missing", "unseen"
]
"""What a rank is found to do, as far as it concerns the others.

``waiting`` for other ranks; ``on_gpu``: waits for its own GPU, and nothing tells what that waits for; ``working``:
anything else in its program, blocked or busy, or its GPU computes; ``leaving``: shutting down;
``stopped`` (state T or t) and ``uninterruptible`` (state D) over several looks; ``refused``: the one process that could
not be looked into while its neighbours could; ``gone``: seen before, not there now; ``missing``: never seen though
WORLD_SIZE counts it, or on a node that has fallen silent; ``unseen``: alive, but no stack was taken or read.
"""

UNWATCHED = Moves()


class RankStatus(NamedTuple):
    """One rank, its process, and what it does."""

    rank: int
    node: str
    state: State
    process: Rank | None = None
    activity: Activity | None = None
    """Over all recent looks."""
    readings: Sequence[Activity] = NOTHING_SEEN
    """One for each look alone, oldest first."""
    moves: Moves = UNWATCHED
    held: float = 0.0
    """Seconds for which it was seen in this state, at this place."""
    load: Load = "unknown"
    """What its own GPU does."""
    native: bool = False
    """Native frames of its own tell what its Python frames leave open."""
    interpreted: Sequence[Activity] = NOTHING_SEEN
    """One for each look at its native frames, which show whether the interpreter itself was running."""
    frozen: bool | None = None
    """It stayed at one point over the looks; None when that cannot be told (it spins, or one look)."""
    arrived: float = inf
    """Seconds since it was first seen to wait, where it was seen to do something else after the job stopped."""

    @property
    def motion(self) -> Motion:
        """How much its process moved; nothing where nobody dumped it and it looks ordinary."""
        return self.moves.motion

    @property
    def busy(self) -> bool:
        """It computes, or polls: by its process, or by the looks at it; also where it is given less CPU than it asks.

        Who is found ready to run at every look, and does run, would use a whole core if there were one.
        """
        if self.motion.busy or self.motion.starved or (self.activity is not None and self.activity.cpu == "busy"):
            return True
        asks = len(self.readings) >= LATE_LOOKS and all(reading.state == "R" for reading in self.readings)
        return asks and not self.blocked

    @property
    def blocked(self) -> bool:
        """It hardly used its CPU: by its process, or by looks."""
        looks = self.activity is not None and self.activity.cpu == "blocked" and not self.motion.wants_cpu
        thread = "" if self.activity is None else self.activity.thread
        return self.motion.rests(thread) or ((self.motion.blocked or looks) and not self.motion.beside(thread))

    @property
    def seen(self) -> bool:
        """Whether its frames were seen; else its GPU and its process alone tell what it does."""
        return self.activity is not None and bool(self.activity.frames)

    @property
    def where(self) -> str:
        """``read_shard (data.py:88)``, or what is known instead."""
        return "" if self.activity is None else self.activity.where or self.activity.label

    @property
    def pid(self) -> int | None:
        """Process id on its node."""
        return self.process.process.pid if self.process else None

    @property
    def waited_for_cpu(self) -> int:
        """Per cent of the time in which it was ready to run and had no CPU."""
        return 0 if self.process is None else self.process.waited_for_cpu

    @property
    def present(self) -> bool:
        """A process of this rank is there."""
        return self.state not in ("gone", "missing")

    @property
    def read(self) -> bool:
        """Its frames could be read."""
        return self.activity is not None and not self.activity.error


def nodes_of(statuses: Iterable[RankStatus]) -> tuple[str, ...]:
    """Nodes of these ranks, as far as they are known."""
    return tuple(sorted({one.node for one in statuses if one.node}))


def in_state(statuses: Mapping[int, RankStatus], *states: State) -> tuple[RankStatus, ...]:
    """Ranks in any of these states, in order."""
    return tuple(one for one in statuses.values() if one.state in states)


def status_of(
    job: Job, number: int, node: str, dumps: list[StackDump], process: Rank | None, *, resists: bool, load: Load
) -> RankStatus:
    """Where a rank stands whose process is there, or of which there are dumps; not yet whether it is frozen."""
    state = state_of(process.looks[-1].value) if process and process.looks else ""
    home = process.node if process else node
    if not dumps and state and state not in HALTED:  # as nearly all of sixteen thousand, every second
        return RankStatus(number, home, "unseen", process, load=load)
    dumps = unheld(untorn(dumps), state)
    plain = [dump for dump in dumps if dump.method != "native"] or dumps
    doing = activity(plain) if dumps else None
    arrived = inf
    if doing is not None and doing.moving:
        arrived = _arrived(job, plain, doing)
        plain, doing = _since_it_came(job, plain, doing, load)
    told = by_native(doing, dumps) if doing is not None else None
    moves = Moves(process, doing.since if doing and doing.looks >= LATE_LOOKS else None)
    readings = Readings(plain) if plain else NOTHING_SEEN
    found = RankStatus(
        number, home, "unseen", process, told or doing, readings, moves,
        load=load, native=told is not None, arrived=arrived,
        interpreted=Readings([dump for dump in dumps if dump.method == "native"]),
    )  # fmt: skip
    return _stated(job, found, _judged(found, state, resists=resists))


def _arrived(job: Job, dumps: list[StackDump], doing: Activity) -> float:
    """Seconds since a rank of a job that stands still came to wait from something else that it did meanwhile."""
    stands = job.live and (job.stood_still or 0.0) >= STOOD_STILL_S
    if not stands or doing.error or not waits_for_others(doing):
        return inf
    before = Readings([dump for dump in dumps if dump.at < doing.since])
    did_else = any(not reading.error and not waits_for_others(reading) for reading in before)
    return max(0.0, job.now - doing.since) if did_else else inf


def _since_it_came(job: Job, dumps: list[StackDump], doing: Activity, load: Load) -> tuple[list[StackDump], Activity]:
    """Of the looks at a rank of a job that stands still, those since it came to where it waits, or uses no CPU.

    When exactly a job stopped is known to some seconds, so the first of them may have met it on its way. That one stays
    where it is for seconds says more than that it was elsewhere before; of one that computes it does not, unless it is
    in a call that Python does not show, beside a GPU that does not compute: native frames are to tell what that is.
    """
    stands = job.live and (job.stood_still or 0.0) >= STOOD_STILL_S
    if doing.error or not stands or doing.at - doing.since < STOOD_STILL_S:
        return dumps, doing
    late = [dump for dump in dumps if dump.at >= doing.since]
    stays = activity(late)
    hidden = load in ("spinning", "mixed") and stays.native_would_tell
    return (late, stays) if hidden or stays.cpu == "blocked" or waits_for_others(stays) else (dumps, doing)


def told_by(job: Job, status: RankStatus, told: Activity) -> RankStatus:
    """The same rank with the meaning that native frames of another one at the same point give it."""
    assert status.activity is not None
    found = status._replace(activity=with_meaning(status.activity, told))
    return _stated(job, found, _judged(found, status.motion.state, resists=False))


def waiting_for(job: Job, status: RankStatus, told: Activity) -> RankStatus:
    """The same rank, which waits for another one, as something besides its frames tells."""
    return _stated(job, status._replace(activity=told), "waiting")


def _stated(job: Job, status: RankStatus, state: State) -> RankStatus:
    doing, moves = status.activity, status.moves
    held = held_for(job, state, doing, moves) if state != "unseen" else 0.0
    return status._replace(state=state, held=held)


def frozen(status: RankStatus) -> bool | None:
    """Tell whether a rank stood at one point over the looks.

    A wait on the CPU that lasts causes no switch at all: switches of the main thread mean that one wait ended and the
    next began, however alike the looks are; unless the library was told to poll. A rank that spins cannot be told.
    """
    doing = status.activity
    if doing is None or len(status.readings) < LATE_LOOKS:
        return None
    if doing.moving:
        return False
    moved = status.motion
    if moved.cpu is None or moved.switches is None:
        return True if doing.cpu == "blocked" else None
    switched = wakes(moved)
    if status.state in ("waiting", "on_gpu") and switched and not polls(status.process, moved):
        return False
    return True if moved.blocked and not switched else None


def in_c_code(status: RankStatus) -> bool:
    """True where its main thread sleeps in C code that its program called: a lock, or an operation begun earlier."""
    doing = status.activity
    return doing is not None and _in_c_code(status, doing, "main") and doing.syscall == "futex" and not status.busy


def in_c_code_beside(status: RankStatus) -> bool:
    """True where another thread of it, for which its main thread waits, sleeps in C code that its program called."""
    doing = status.activity
    return doing is not None and _in_c_code(status, doing, "autograd", "python") and status.blocked


def _in_c_code(status: RankStatus, doing: Activity, *threads: str) -> bool:
    return status.state == "working" and (doing.kind, doing.waits) == ("code", "unknown") and doing.thread in threads


def _judged(status: RankStatus, letter: str, *, resists: bool) -> State:
    """State of a rank whose process the kernel last showed with this letter."""
    doing, readings, moves = status.activity, status.readings, status.moves
    letter = letter or (doing.state if doing else "")
    if letter in ("T", "t") and _persists(
        letter, readings, moves.motion, held_by_a_tracer(doing) if letter == "t" else 0.0
    ):
        return "stopped"
    if letter == "D" and not _reads_on(moves.motion) and _persists(letter, readings, moves.motion, UNINTERRUPTIBLE_S):
        return "uninterruptible"
    if doing is None:
        return "unseen"
    if doing.error:
        told: dict[str, State] = {"stopped": "stopped", "gone": "gone"}
        return told.get(doing.error, "refused" if resists else "unseen")
    if doing.kind == "shutdown" and all(reading.kind == "shutdown" for reading in readings[-LATE_LOOKS:]):
        return "leaving"
    return _of_waits(doing, moves, status.load)


def _of_waits(doing: Activity, moves: Moves, load: Load) -> State:
    """``waiting``, ``on_gpu`` or ``working``: whoever waits while its own GPU computes is not held up by anybody."""
    if not waits_for_others(doing, moves):
        return "working"
    if load == "computing" or gets_through(doing, moves, load) or (doing.kind == "store" and moves.motion.moves_data):
        return "working"  # who reads or writes in earnest has left the store since it was looked at
    return "waiting" if doing.kind != "device" or load == "spinning" else "on_gpu"


def waits_for_others(doing: Activity, moves: Moves | None = None) -> bool:
    """True when it waits for other ranks, as far as one can tell.

    Inside ``backward`` or a wrapper's ``forward`` a rank that uses no CPU waits: gloo and the reducer block there in
    C++. A rank that waits for its own GPU counts as waiting too: its kernels may be NCCL's, and the GPU tells.
    """
    if doing.waits == "peers" or doing.kind == "device":
        return True
    if doing.waits == "unknown" and doing.kind in ("backward", "forward"):
        if doing.cpu == "blocked":
            return True
        moved = moves.motion if moves else Motion()
        return moved.blocked or (doing.cpu == "unknown" and doing.state == "S" and moved.cpu is None)
    return False


def gets_through(doing: Activity, moves: Moves, load: Load) -> bool:
    """Each wait for its own GPU ends, and another begins: a program that is held up in one runs nothing in between."""
    return doing.kind == "device" and load == "unknown" and comes_back(moves.motion)


def _reads_on(moved: Motion) -> bool:
    """In the state that it shows it reads or writes in earnest: from a slow disk, in few big pieces."""
    return moved.state_bytes > WORK_BYTES_PER_S


def _persists(state: str, readings: Sequence[Activity], moved: Motion, least: float) -> bool:
    """A process state counts once every one of several looks showed it, over ``least`` seconds."""
    if moved.state == state and moved.span > 0:
        since = moved.state_switches if moved.state_for >= TRACED_S else moved.switches or 0.0
        return moved.state_for >= least and moved.state_for > 0 and since <= STILL_SWITCHES_PER_S
    states = [reading.state for reading in readings]
    long_enough = len(readings) >= LATE_LOOKS and readings[-1].at - readings[0].at >= least
    return long_enough and set(states[-LATE_LOOKS:]) == {state}
