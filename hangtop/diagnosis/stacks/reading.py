"""Reads one thread's stack: what it means, whose code it is in, how people write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from collectors.samples.stacks import Frame
from hangtop.diagnosis.phrasing import ranks_text
from hangtop.diagnosis.stacks import hints
from hangtop.diagnosis.stacks.doing import Context, Group, Kind, Waits
from hangtop.diagnosis.stacks.frames import function, is_user, own, place
from hangtop.diagnosis.stacks.generic import LEFT, NETWORK
from hangtop.diagnosis.stacks.leaf import Leaf, find, packs_object
from hangtop.diagnosis.stacks.system import System
from hangtop.diagnosis.stacks.tables import group_of, phase_of
from hangtop.diagnosis.stacks.vocabulary import Phase

_BY_EVENTS = ("torch/distributed/rpc/api.py", "tensorflow/python/distribute/cross_device_ops.py")
"""Libraries that wait for other ranks in events of Python's own."""
_DECIDING: frozenset[Context] = frozenset(("data", "checkpoint", "compile", "shutdown"))
_WITH_OPERATION: frozenset[Kind] = frozenset(("collective", "p2p", "init", "store", "shutdown"))
_TRIES = "tries again and again to take a lock"
_WITHIN: tuple[tuple[Context, str], ...] = (
    ("checkpoint", "of a checkpoint"), ("evaluation", "of evaluation"), ("compile", "of compiling")
)  # fmt: skip
_KINDS_OF_FILES: dict[str, Kind] = {"reads": "data", "writes": "checkpoint"}
_FIRST_FRAMES = frozenset(("<module>", "_run_code", "_run_module_as_main", "_bootstrap", "run_path"))


_COUNT = ("group_given", "src", "dst", "group_src", "group_dst", "ranks", "timeout")
_REMEMBERED = 4096
_POINT, _ARGUMENTS = itemgetter(slice(4)), itemgetter(4)
"""Of a frame: where it is, and what it was called with."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What one thread's frames mean; fields as in :class:`~hangtop.diagnosis.stacks.doing.Activity`.

    Ranks at the same point share one Reading, so it is compared, and looked up, by identity.
    """

    kind: Kind
    op: str
    label: str
    meaning: str
    """The label without what differs from rank to rank (file, peer)."""
    waits: Waits
    context: frozenset[Context]
    group: Group
    world: bool | None
    peer: int | None
    decided_by: Frame | None
    user: tuple[Frame, ...]
    """Frames of user code, innermost first."""
    frames: tuple[Frame, ...]
    """All frames of this process, innermost first."""
    native_would_tell: bool
    root: int | None = None
    by_name: bool = False
    """Names in the user's own code, or which way a file goes, alone gave the kind: a hint, no proof."""
    within: float | None = None

    @property
    def frame(self) -> Frame | None:
        """Innermost user frame."""
        return self.user[0] if self.user else None

    @property
    def where(self) -> str:
        """The innermost user frame as people write it."""
        return place(self.user[0]) if self.user else ""


_read_before: dict[tuple[object, ...], Reading] = {}


def read(frames: Sequence[Frame], system: System, *, main: bool = True) -> Reading:
    """Read a thread's frames (innermost first). ``system`` is what the kernel says of it; empty for other threads.

    ``main`` tells that it is a main thread, whose outermost frame is the program's own first line.
    """
    # Thousands of ranks wait at the same few points: each point is read once.
    given = list(map(_ARGUMENTS, frames))
    arguments = tuple([_told(named) if named else () for named in given]) if any(given) else ()
    key = (tuple(map(_POINT, frames)), arguments, system, main)
    known = _read_before.get(key)
    if known is None:
        if len(_read_before) >= _REMEMBERED:
            _read_before.clear()
        known = _read_before[key] = _read(frames, system, main=main)
    return known


def _told(arguments: Mapping[str, str]) -> tuple[str | None, ...]:
    """What of a frame's arguments counts: the address of a group differs in every process and tells nothing."""
    whole = "None" if arguments.get("group") == "None" else None
    told = tuple(arguments.get(name) for name in _COUNT)
    return (whole, *told)


def _read(frames: Sequence[Frame], system: System, *, main: bool) -> Reading:
    mine = own(frames)
    user = tuple(frame for frame in mine if is_user(frame))
    phases = [row for frame in mine if (row := phase_of(frame)) is not None]
    hint = hints.of_stack(user)
    context: set[Context] = {row.context for row in phases}
    if hint is not None:
        context.add(hint)
    if main and _left_program(mine, system):
        context.add("shutdown")
    leaf = None if system.waits == "nothing" and packs_object(mine) else find(mine, generic=False)
    generic = find(mine, generic=True)
    if leaf is not None and generic is not None:
        leaf, generic = (None, generic) if _further_in(generic, leaf, mine) else (leaf, None)
    decided = leaf or generic
    if leaf is not None:
        kind, waits, meaning = leaf.kind, leaf.waits, _of_leaf(leaf, context)
    else:
        nearest = next((row for row in phases if row.kind is not None), None)
        kind, waits, meaning = _without_leaf(generic, nearest, hint, "shutdown" in context, mine, system)
        if waits == "time" and kind in ("sleep", "data", "checkpoint") and nearest is None and hints.wants_lock(user):
            kind, meaning = "lock", _TRIES
    return Reading(
        kind=kind,
        op=leaf.op if leaf is not None and kind in _WITH_OPERATION else "",
        label=_label(meaning, leaf, system),
        meaning=meaning,
        waits=waits,
        context=frozenset(context),
        group=next((group for frame in mine if (group := group_of(frame))), ""),
        world=leaf.world if leaf is not None else None,
        peer=leaf.peer if leaf is not None else None,
        root=leaf.root if leaf is not None and leaf.world else None,
        within=decided.within if decided is not None else None,
        decided_by=decided.frame if decided is not None else None,
        user=user,
        frames=mine,
        native_would_tell=decided is None and _open(kind, waits, mine, system),
        by_name=leaf is None
        and not any(row.kind == kind for row in phases)
        and (hint == kind or _by_direction(system) == kind or meaning is _TRIES),
    )


def _without_leaf(
    generic: Leaf | None,
    nearest: Phase | None,
    hint: hints.Hint | None,
    leaving: bool,
    frames: tuple[Frame, ...],
    system: System,
) -> tuple[Kind, Waits, str]:
    """Kind, whom it waits for, and meaning of a stack that shows neither a wait for peers nor one for its GPU."""
    waits = generic.waits if generic is not None else system.waits
    if nearest is not None and nearest.kind is not None and nearest.context in _DECIDING:
        behind = f": {generic.row.label}" if nearest.label == LEFT and generic is not None else ""
        return nearest.kind, nearest.waits if waits == "unknown" else waits, nearest.label + behind
    if leaving:
        return "shutdown", waits, LEFT
    if generic is not None and generic.kind == "lock":
        return "lock", waits, generic.row.label
    if generic is None and waits == "lock":
        return "lock", waits, system.label
    if hint in ("data", "checkpoint"):
        return hint, waits, "reads data" if hint == "data" else "saves or loads a checkpoint"
    if generic is not None:
        return generic.kind, waits, generic.row.label
    inside = _inside_of(frames)
    if waits == "time" and inside is not None:
        waits = "unknown"  # the engine does not sleep: the kernel was asked a moment before the frames were read
    if waits == "time":
        return "sleep", waits, "sleeps"
    if nearest is not None and nearest.kind is not None:
        return nearest.kind, waits, nearest.label
    if inside is not None:
        return "backward" if inside.context == "backward" else "forward", waits, inside.label
    return _by_direction(system) or "code", waits, system.label


def _by_direction(system: System) -> Kind | None:
    """What a program does that the kernel keeps in a call on a file: whatever it is called, it reads or it saves."""
    return _KINDS_OF_FILES.get(system.direction)


def _of_leaf(leaf: Leaf, context: set[Context]) -> str:
    meaning = leaf.row.label.format(op=leaf.op)
    within = next((words for phase, words in _WITHIN if phase in context), "")
    return f"{meaning} {within}" if within and leaf.waits == "peers" else meaning


def _label(meaning: str, leaf: Leaf | None, system: System) -> str:
    if leaf is not None:
        if leaf.members:
            return f"{meaning} of {ranks_text(leaf.members)}"
        if leaf.peer is None:
            return meaning
        return f"waits to {'receive from' if 'recv' in leaf.op else 'send to'} rank {leaf.peer}"
    named = system.waits == "storage" and system.waiting_on
    return f"{meaning} ({system.waiting_on})" if named else meaning


def _further_in(lock: Leaf, outer: Leaf, frames: tuple[Frame, ...]) -> bool:
    """True for a lock that is taken inside of a library's function which would else be told as a wait for peers."""
    if lock.kind != "lock" or lock.waits != "lock" or outer.waits != "peers" or lock.frame.native:
        return False
    if outer.frame.file.endswith(_BY_EVENTS):
        return False
    return frames.index(lock.frame) < frames.index(outer.frame)


def _inside_of(frames: tuple[Frame, ...]) -> Phase | None:
    """Backward or a wrapper's forward, when nothing but libraries is further in than that."""
    for frame in frames:
        if is_user(frame):
            return None
        row = phase_of(frame)
        if row is not None and row.context in ("backward", "forward"):
            return row
    return None


def _left_program(frames: tuple[Frame, ...], system: System) -> bool:
    """A main thread that has returned from the program's first line, or has no frame at all, is on its way out.

    Of one that computes the outer frames may be missing because they changed while they were read, and so they are
    where the outermost one that is left is a library's private function, which no program ends in.
    """
    python = [frame for frame in frames if not frame.native]
    if python and (system.waits == "nothing" or _is_inner(python[-1])):
        return False
    return not any(begins_a_program(frame) for frame in python)


def _is_inner(frame: Frame) -> bool:
    """A library's private function, and none that ends a program: something else of that library called it."""
    private = function(frame.name).startswith("_") and not function(frame.name).startswith("__")
    return private and not is_user(frame) and phase_of(frame) is None


def begins_a_program(frame: Frame) -> bool:
    """True for a frame that a program or a thread of Python's begins with."""
    return frame.name in _FIRST_FRAMES or frame.name.endswith("._bootstrap")


def _open(kind: Kind, waits: Waits, frames: tuple[Frame, ...], system: System) -> bool:
    """Whether native frames could say more: C code that Python called is not on a Python stack.

    A wait at a store is in C: the kernel shows that it polls a socket, and not whose.
    """
    if any(frame.native for frame in frames):
        return False
    at_a_store = waits == "storage" and system.label == NETWORK and not system.waiting_on
    # who gathers what it saves waits for its GPU, and for the others, in a call that looks like work
    busy = kind in ("code", "checkpoint") and waits in ("device", "nothing")
    return busy or at_a_store or kind in ("backward", "forward") or waits == "unknown"
