"""Where one rank stands: what its stacks and its process say together, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.motion import HALTED, Motion, Moves
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.tables.thresholds import (
    LATE_LOOKS,
    QUIET_SWITCHES_PER_S,
    STILL_SWITCHES_PER_S,
    UNINTERRUPTIBLE_S,
)

Stance = Literal["waiting", "working", "leaving", "stopped", "uninterruptible", "refused", "gone", "missing", "unseen"]
"""Where a rank stands.

``waiting`` for other ranks; ``working``: anything else in its program, blocked or busy; ``leaving``: shutting down;
``stopped`` (state T or t) and ``uninterruptible`` (state D) over several looks; ``refused``: the one process that could
not be looked into while its neighbours could; ``gone``: seen before, not there now; ``missing``: never seen though
WORLD_SIZE counts it, or on a node that has fallen silent; ``unseen``: alive, but no stack was taken or read.
"""

POLLING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
"""Settings with which torch polls a collective instead of sleeping in it."""


class Glances(Sequence[Activity]):
    """What single looks at one rank showed, oldest first; read when asked for, as few of them are."""

    __slots__ = ("_begin", "_dumps", "_known")

    def __init__(self, dumps: Sequence[StackDump] = ()) -> None:
        """Take all dumps in order: each look begins with a dump of the rank itself, its helpers' follow."""
        self._dumps = dumps
        self._begin = [place for place, dump in enumerate(dumps) if dump.pid == dump.rank_pid or not place]
        self._known: dict[int, Activity] | None = None

    def __len__(self) -> int:
        return len(self._begin)

    @overload
    def __getitem__(self, index: int) -> Activity: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Activity]: ...

    def __getitem__(self, index: int | slice) -> Activity | Sequence[Activity]:
        places = range(len(self._begin))[index]
        return self._at(places) if isinstance(places, int) else [self._at(place) for place in places]

    def _at(self, place: int) -> Activity:
        if self._known is None:
            self._known = {}
        known = self._known.get(place)
        if known is None:
            end = self._begin[place + 1] if place + 1 < len(self._begin) else len(self._dumps)
            known = self._known[place] = activity(self._dumps[self._begin[place] : end])
        return known


NOTHING_SEEN = Glances()
UNWATCHED = Moves()


class Standing(NamedTuple):
    """One rank, its process, and what it does."""

    rank: int
    node: str
    stance: Stance
    process: Rank | None = None
    activity: Activity | None = None
    """Over all recent looks."""
    glances: Sequence[Activity] = NOTHING_SEEN
    """One for each look alone, oldest first."""
    moves: Moves = UNWATCHED
    held: float = 0.0
    """Seconds for which it was seen in this stance, at this place."""
    frozen: bool | None = None
    """Whether it stayed at one point over the looks; None when that cannot be told (it spins, or one look)."""

    @property
    def motion(self) -> Motion:
        """How much its process moved; nothing where nobody dumped it and it looks ordinary."""
        return self.moves.motion

    @property
    def where(self) -> str:
        """``read_shard (data.py:88)``, or what is known instead."""
        if self.activity is None:
            return ""
        return self.activity.where or self.activity.label

    @property
    def pid(self) -> int | None:
        """Process id on its node."""
        return self.process.process.pid if self.process else None

    @property
    def present(self) -> bool:
        """A process of this rank is there."""
        return self.stance not in ("gone", "missing")


def standing_of(
    job: Job, number: int, node: str, dumps: list[StackDump], process: Rank | None, *, resists: bool
) -> Standing:
    """Where a rank stands whose process is there, or of which there are dumps; not yet whether it is frozen."""
    state = process.looks[-1].value.state if process and process.looks else ""
    home = process.node if process else node
    if not dumps and state and state not in HALTED:  # as nearly all of sixteen thousand, every second
        return Standing(number, home, "unseen", process)
    dumps = _untorn(dumps)
    plain = [dump for dump in dumps if dump.method != "native"] or dumps
    doing = _settled(activity(plain), dumps) if dumps else None
    moves = Moves(process, doing.since if doing and doing.looks >= LATE_LOOKS else None)
    glances = Glances(plain) if plain else NOTHING_SEEN
    stance = _stance(doing, glances, state, moves, resists=resists)
    held = max(_held(stance, doing, moves), stood_still(job, doing)) if stance != "unseen" else 0.0
    return Standing(number, home, stance, process, doing, glances, moves, held)


def frozen(standing: Standing) -> bool | None:
    """Tell whether a rank stood at one point over the looks.

    A wait on the CPU that lasts causes no switch at all: switches of the main thread mean that one wait ended and the
    next began, however alike the looks are; unless the library was told to poll. A rank that spins cannot be told.
    """
    doing = standing.activity
    if doing is None or len(standing.glances) < LATE_LOOKS:
        return None
    if doing.moving:
        return False
    moved = standing.motion
    if moved.cpu is None or moved.switches is None:
        return True if doing.cpu == "blocked" else None
    switched = moved.switches * moved.span > max(1.0, QUIET_SWITCHES_PER_S * moved.span)
    if standing.stance == "waiting" and switched and not polls(standing.process):
        return False
    return True if moved.blocked and not switched else None


def in_c_code(standing: Standing) -> bool:
    """True for a rank that sleeps in C code which its own program called: a lock, or an operation begun earlier."""
    doing = standing.activity
    return (
        standing.stance == "working"
        and doing is not None
        and doing.kind == "code"
        and doing.waits == "unknown"
        and doing.syscall == "futex"
        and not standing.motion.busy
        and doing.cpu != "busy"
    )


def _untorn(dumps: list[StackDump]) -> list[StackDump]:
    """Leave out torn reads of a process that other looks could read: a busy interpreter changes under the eye."""
    whole = [dump for dump in dumps if not dump.error.startswith("torn")]
    if len(whole) == len(dumps):
        return dumps
    return whole if any(dump.threads for dump in whole) else dumps


def _settled(doing: Activity, dumps: list[StackDump]) -> Activity:
    """Take the meaning from a look with native frames at the same place; time and movement from the others.

    Native frames change the folded place of a rank that has not moved, so they must not count as a look of their own.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    if not native or len(native) == len(dumps):
        return doing
    told = activity(native)
    if told.error or told.kind == "unknown" or told.where != doing.where:
        return doing
    return doing._replace(
        kind=told.kind, op=told.op, label=told.label, waits=told.waits, context=doing.context | told.context,
        decided_by=told.decided_by, holder=told.holder or doing.holder, frames=told.frames, native_would_tell=False,
    )  # fmt: skip


def polls(process: Rank | None) -> bool:
    """True where the settings make a rank poll while it waits."""
    env = process.process.env if process else {}
    return any(env.get(name, "0") not in ("", "0") for name in POLLING)


def _stance(doing: Activity | None, glances: Glances, state: str, moves: Moves, *, resists: bool) -> Stance:
    state = state or (doing.state if doing else "")
    if state in ("T", "t") and _persists(state, glances, moves.motion, 0.0):
        return "stopped"
    if state == "D" and _persists(state, glances, moves.motion, UNINTERRUPTIBLE_S):
        return "uninterruptible"
    if doing is None:
        return "unseen"
    if doing.error:
        if doing.error == "stopped":
            return "stopped"
        if doing.error == "gone":
            return "gone"
        return "refused" if resists else "unseen"
    if doing.kind == "shutdown" and all(glance.kind == "shutdown" for glance in glances[-LATE_LOOKS:]):
        return "leaving"
    return "waiting" if waits_for_others(doing, moves) else "working"


def waits_for_others(doing: Activity, moves: Moves | None = None) -> bool:
    """True when it waits for other ranks, as far as one can tell.

    Inside ``backward`` or a wrapper's ``forward`` a rank that uses no CPU waits: gloo and the reducer block there in
    C++. A rank that waits for its own GPU counts as waiting too: its kernels may be NCCL's.
    """
    if doing.waits == "peers":
        return True
    if doing.kind == "device":
        return True
    if doing.waits == "unknown" and doing.kind in ("backward", "forward"):
        if doing.cpu == "blocked":
            return True
        moved = moves.motion if moves else Motion()
        return moved.blocked or (doing.cpu == "unknown" and doing.state == "S" and moved.cpu is None)
    return False


def _persists(state: str, glances: Sequence[Activity], moved: Motion, least: float) -> bool:
    """A process state counts once every one of several looks showed it, over ``least`` seconds."""
    if moved.state == state and moved.span > 0:
        return moved.state_for >= least and moved.state_for > 0 and (moved.switches or 0.0) <= STILL_SWITCHES_PER_S
    states = [glance.state for glance in glances]
    long_enough = len(glances) >= LATE_LOOKS and glances[-1].at - glances[0].at >= least
    return long_enough and set(states[-LATE_LOOKS:]) == {state}


def _held(stance: Stance, doing: Activity | None, moves: Moves) -> float:
    if stance in ("stopped", "uninterruptible"):
        return moves.motion.state_for
    if doing is None:
        return 0.0
    return max(0.0, doing.at - doing.since) if doing.looks >= LATE_LOOKS else 0.0


def stood_still(job: Job, doing: Activity | None) -> float:
    """Seconds since the job last moved, when this dump was taken in that time: then it shows the whole of it."""
    if doing is None or job.stood_still is None or not job.live:
        return 0.0
    return job.stood_still if job.now - doing.at <= job.stood_still else 0.0
