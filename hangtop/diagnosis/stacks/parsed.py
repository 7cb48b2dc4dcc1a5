"""Reads one thread's stack: what it means, and whose code it is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frame_table import PEERS, PHASES, PROGRAM, FrameRow
from hangtop.diagnosis.stacks.frames import (
    function,
    is_carrier,
    is_user,
    library,
    own,
    package,
    phase_by_name,
    place,
)
from hangtop.diagnosis.stacks.innermost import Innermost, find, packs_object
from hangtop.diagnosis.stacks.kernel import KernelView
from hangtop.diagnosis.stacks.states import Activity, Kind, Meaning, Phase, Waits, label_of

_WITH_OPERATION: frozenset[Kind] = frozenset(("collective", "p2p", "init", "store", "shutdown"))
_NAMED_PHASES: tuple[Phase, ...] = ("checkpoint", "evaluation", "compile")
_FIRST_FRAMES = frozenset(("<module>", "_run_code", "_run_module_as_main", "_bootstrap", "run_path"))
_ARGUMENTS_READ = ("group_given", "src", "dst", "ranks")
_BY_NAME: tuple[tuple[Phase, Meaning], ...] = (("data", Meaning.DATA), ("checkpoint", Meaning.CHECKPOINT))
_PASSES: dict[tuple[Phase, bool], Meaning] = {
    ("backward", False): Meaning.BACKWARD, ("backward", True): Meaning.BACKWARD_WAITS,
    ("forward", False): Meaning.FORWARD, ("forward", True): Meaning.FORWARD_WAITS,
}  # fmt: skip
"""By the phase, and whether the thread sleeps in C code there."""
_REMEMBERED = 4096
_POINT, _ARGUMENTS = itemgetter(slice(4)), itemgetter(4)
"""Of a frame: where it is, and what it was called with."""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedStack:
    """What one thread's frames mean. Ranks at the same point share one, so it is compared by identity."""

    says: Activity
    """What the thread does, as far as one look tells."""
    user: tuple[Frame, ...]
    """Frames of user code, innermost first; of a stack without Python frames, all that do more than carry a call."""
    frames: tuple[Frame, ...]
    """All frames of this process, innermost first."""


_parsed_before: dict[tuple[object, ...], ParsedStack] = {}


def parse(frames: Sequence[Frame], view: KernelView | None = None, *, main: bool = True) -> ParsedStack:
    """Read a thread's frames (innermost first). ``view`` is what the kernel says of it; None for threads beside main.

    ``main`` tells that it is a main thread, whose outermost frame is the program's own first line.
    """
    # Thousands of ranks wait at the same few points: each point is read once.
    given = list(map(_ARGUMENTS, frames))
    arguments = tuple([_read_of(named) if named else () for named in given]) if any(given) else ()
    key = (tuple(map(_POINT, frames)), arguments, view, main)
    known = _parsed_before.get(key)
    if known is None:
        if len(_parsed_before) >= _REMEMBERED:
            _parsed_before.clear()
        known = _parsed_before[key] = _parse(frames, view or KernelView(), main=main)
    return known


def _read_of(arguments: Mapping[str, str]) -> tuple[str | None, ...]:
    """What of a frame's arguments counts: the address of a group differs in every process and tells nothing."""
    whole = "None" if arguments.get("group") == "None" else None
    return (whole, *(arguments.get(name) for name in _ARGUMENTS_READ))


def _parse(frames: Sequence[Frame], view: KernelView, *, main: bool) -> ParsedStack:
    mine = own(frames)
    python = any(not frame.native for frame in mine)
    user = tuple(frame for frame in mine if (is_user(frame) if python else not is_carrier(frame)))
    phases = [row for frame in mine if (row := phase_of(frame)) is not None]
    context: set[Phase] = {row.phase for row in phases if row.phase is not None}
    named = phase_by_name(user) if python else None
    if named is not None:
        context.add(named)
    if main and view.known and _left_program(mine, view):
        context.add("shutdown")
    peers = None if view.waits == "nothing" and packs_object(mine) else find(mine, PEERS)
    program = find(mine, PROGRAM)
    behind = None
    if peers is not None:
        meaning, waits = peers.meaning, peers.meaning.waits
    else:
        meaning, waits = _without_peers(program, phases, context, mine, view)
        behind = program.meaning if meaning is Meaning.LEFT and program is not None else None
    decided = peers or program
    op = peers.op if peers is not None and meaning.kind in _WITH_OPERATION else ""
    words = partial(label_of, meaning, op, phase=next((p for p in _NAMED_PHASES if p in context), None), behind=behind)
    file = view.waiting_on if peers is None and view.waits == "storage" else ""
    lines = _folded(mine, user, "" if decided is None and meaning.kind in ("code", "unknown") else words())
    guessed = named == meaning.kind and not any(row.phase == named for row in phases)
    says = Activity(
        meaning.kind,
        meaning,
        op,
        words(peer=peers.peer, members=peers.members) if peers is not None else words(file=file),
        waits,
        frozenset(context),
        behind=behind,
        frame=user[0] if user else None,
        where=place(user[0]) if user else "",
        decided_by=decided.frame if decided is not None else None,
        frames=lines,
        by_name=peers is None and (meaning is Meaning.READS_FILE or guessed),
        native_would_tell=decided is None and _native_would_tell(meaning.kind, waits, mine, view),
    )
    if peers is not None:
        says = says._replace(world=peers.world, peer=peers.peer, members=peers.members)
    return ParsedStack(says, user, mine)


def _without_peers(
    program: Innermost | None,
    phases: Sequence[FrameRow],
    context: Collection[Phase],
    frames: tuple[Frame, ...],
    view: KernelView,
) -> tuple[Meaning, Waits]:
    """Meaning of a stack that shows neither a wait for peers nor one for its GPU, and what it waits for."""
    waits = program.meaning.waits if program is not None else view.waits
    nearest = next((row.meaning for row in phases if row.meaning is not None), None)
    if nearest is not None and nearest is not Meaning.EVALUATES:
        return nearest, nearest.waits if waits == "unknown" else waits
    if "shutdown" in context:
        return Meaning.LEFT, waits
    seen = program.meaning if program is not None else view.meaning
    if waits == "lock" or seen.kind == "lock":
        return seen, waits
    by_name = next((meaning for phase, meaning in _BY_NAME if phase in context), None)
    if by_name is not None or program is not None:
        return by_name or seen, waits
    if nearest is not None and waits != "time":
        return nearest, waits
    if (inside := _pass_inside_of(frames)) is not None:
        # the engine does not sleep: the kernel was asked a moment before the frames were read
        return _PASSES[inside, seen is Meaning.IN_C], "unknown" if waits == "time" else waits
    return seen, waits


def _pass_inside_of(frames: tuple[Frame, ...]) -> Phase | None:
    """Backward or a wrapper's forward, when nothing but libraries is further in than that."""
    for frame in frames:
        if is_user(frame):
            return None
        row = phase_of(frame)
        if row is not None and row.phase in ("backward", "forward"):
            return row.phase
    return None


def phase_of(frame: Frame) -> FrameRow | None:
    """The row of a frame that everything inside of it is a part of."""
    # a module that is being imported does nothing of what its functions do
    return None if frame.native or frame.name == "<module>" else PHASES.of(frame)


def _left_program(frames: tuple[Frame, ...], view: KernelView) -> bool:
    """A main thread that has returned from the program's first line, or has no frame at all, is on its way out.

    Of one that computes the outer frames may be missing because they changed while they were read, and so they are
    where the outermost one that is left is a library's private function, which no program ends in.
    """
    python = [frame for frame in frames if not frame.native]
    if python and (view.waits == "nothing" or _is_inner(python[-1])):
        return False
    return not any(map(begins_a_program, python))


def _is_inner(frame: Frame) -> bool:
    """A library's private function, and none that ends a program: something else of that library called it."""
    private = function(frame.name).startswith("_") and not function(frame.name).startswith("__")
    return private and not is_user(frame) and phase_of(frame) is None


def begins_a_program(frame: Frame) -> bool:
    """True for a frame that a program or a thread of Python's begins with."""
    return frame.name in _FIRST_FRAMES or frame.name.endswith("._bootstrap")


def _native_would_tell(kind: Kind, waits: Waits, frames: tuple[Frame, ...], view: KernelView) -> bool:
    """Whether native frames could say more: C code that Python called is not on a Python stack.

    A wait at a store is in C: the kernel shows that it polls a socket, and not whose.
    """
    if any(frame.native for frame in frames):
        return False
    at_a_store = waits == "storage" and view.meaning is Meaning.NETWORK and not view.waiting_on
    # a rank that gathers what it saves waits for its GPU, and for the others, in a call that looks like work
    busy = kind in ("code", "checkpoint") and waits in ("device", "nothing")
    return busy or at_a_store or kind in ("backward", "forward") or waits == "unknown"


def _folded(frames: Sequence[Frame], user: Sequence[Frame], words: str) -> tuple[str, ...]:
    """Lines of a stack, outermost first: user frames, one ``[torch]`` a run of a library, ``⟨waits in all_reduce⟩``."""
    lines: list[str] = []
    for frame in reversed(frames):
        line = "" if is_carrier(frame) else place(frame) if frame in user else _line(frame)
        if line and (not lines or lines[-1] != line):
            lines.append(line)
    if words:
        while lines and lines[-1].startswith("["):
            lines.pop()
        lines.append(f"⟨{words}⟩")
    return tuple(lines)


def _line(frame: Frame) -> str:
    if frame.native:
        return "[native]"
    name = library(frame.file) or package(frame.file)
    return "" if name == "python" else f"[{name}]"
