"""Parse one thread's stack: what the thread does, and in whose code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frame_table import PEERS, PHASES, POINT_TO_POINT, PROGRAM, FrameRow, FrameTable
from hangtop.diagnosis.stacks.frames import is_carrier, is_transparent, is_user, library, own, phase_by_name, place
from hangtop.diagnosis.stacks.states import Activity, Kind, Meaning, Phase, Waits

_NAMED_BY_CALLERS: frozenset[Kind] = frozenset(("collective", "p2p", "init", "store"))
_BY_NAME: tuple[tuple[Phase, Meaning], ...] = (("data", Meaning.DATA), ("checkpoint", Meaning.CHECKPOINT))
_PASSES: dict[Phase, Meaning] = {"backward": Meaning.BACKWARD, "forward": Meaning.FORWARD}
_NUMBER = re.compile(r"[0-9]{1,9}")
"""A rank number in an argument, in which a node may send any text."""
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ParsedStack:
    """What one thread's frames mean."""

    activity: Activity
    """What the thread does according to this sample alone."""
    user: tuple[Frame, ...]
    """Frames of user code, innermost first; without Python frames, all frames that do more than forward a call."""
    frames: tuple[Frame, ...]
    """All frames of this process, innermost first."""


_parsed_before: dict[tuple[object, ...], ParsedStack] = {}


def parse(frames: Sequence[Frame], view: Meaning | None = None, *, main: bool = True) -> ParsedStack:
    """Parse a thread's frames (innermost first). ``view``: what the kernel shows of the thread; None if unknown.

    ``main``: the thread is the main thread, whose outermost frame is the program's own first line.
    """
    # Thousands of ranks wait at the same few points: each point is read once.
    key = (tuple([_point(frame) for frame in frames]), view, main)
    if (known := _parsed_before.get(key)) is None:
        if len(_parsed_before) >= _REMEMBERED:
            _parsed_before.clear()
        known = _parsed_before[key] = _parse(frames, view, main=main)
    return known


def _point(frame: Frame) -> tuple[object, ...]:
    """Key of a frame with the arguments that count, without the address of a group, which differs in every process."""
    given = frame.arguments
    return (*frame[:4], given.get("group") == "None", *map(given.get, ("group_given", "src", "dst")))


def _parse(frames: Sequence[Frame], view: Meaning | None, *, main: bool) -> ParsedStack:
    mine = own(frames)
    python = any(not frame.native for frame in mine)
    user = tuple(frame for frame in mine if (is_user(frame) if python else not is_carrier(frame)))
    phases = [row for frame in mine if (row := _phase_of(frame)) is not None]
    inside: set[Phase] = {row.phase for row in phases if row.phase is not None}
    if main and view is not None and not python:  # it has returned from the program's first line
        inside.add("shutdown")
    named = phase_by_name(user) if python else None
    context = inside | ({named} if named is not None else set())
    peers, program = _innermost(mine, PEERS), _innermost(mine, PROGRAM)
    meant = peers or _without_peers(program, phases, context, mine, view or Meaning.CODE)
    meaning, by_frame = meant.meaning, peers is not None or program is not None
    words = meaning.words.format(op=meant.op) if by_frame or meaning.kind not in ("code", "unknown") else ""
    doing = Activity(
        meaning, meant.waits, meant.op, frozenset(context), meant.world, meant.peer,
        where=place(user[0]) if user else "",
        function=place(user[0], line=False) if user else "",
        by_frame=by_frame,
        by_name=peers is None and (
            meaning is Meaning.READS_FILE or (named == meaning.kind and named not in inside)
        ),
        native=any(frame.native for frame in mine),
        place=";".join(_folded(mine, user, words, user[0] if user and not by_frame else None)),
        frames=tuple(_folded(mine, user, words)),
    )  # fmt: skip
    return ParsedStack(doing, user, mine)


# --- what the innermost frames mean ------------------------------------------------------------------------------


class _Found(NamedTuple):
    """Meaning of a stack, with the operation, group and peer from the frames around the innermost frame."""

    meaning: Meaning
    waits: Waits
    op: str = ""
    world: bool | None = None
    peer: int | None = None


def _innermost(frames: Iterable[Frame], table: FrameTable) -> _Found | None:
    """Meaning of the library frames further in than user code (innermost first); None if no row fits.

    The outermost frame of a row names the operation: ``all_gather_object``, although the ``all_gather`` inside waits.
    The arguments of the outermost frame win, too.
    """
    meaning: Meaning | None = None
    op, native, given = "", False, dict[str, str]()
    for frame in takewhile(lambda frame: not is_user(frame), frames):
        row = table.of(frame)
        if row is None or row.meaning is None:
            if meaning is not None and not (frame.native or is_transparent(frame.file)):
                break
        elif meaning is None:
            meaning, op, native = row.meaning, row.operation(frame), frame.native
        elif meaning is Meaning.NCCL_PROXY:  # the operation around it is not launched yet
            break
        elif table is PROGRAM:  # a condition inside a queue: the queue is more specific
            meaning = row.meaning
        elif row.meaning.kind in _NAMED_BY_CALLERS:
            meaning = row.meaning if native or meaning.kind != row.meaning.kind else meaning
            op = row.operation(frame) or op
        else:
            break
        given |= frame.arguments if meaning is not None else {}
    if meaning is None:
        return None
    peer = ""
    if op in POINT_TO_POINT:
        meaning = Meaning.P2P if meaning is Meaning.COLLECTIVE else meaning
        peer = given.get("src" if "recv" in op else "dst", "")
    return _Found(
        meaning, meaning.waits, op if meaning.kind in (*_NAMED_BY_CALLERS, "shutdown") else "",
        given["group_given"] == "no" if "group_given" in given else True if given.get("group") == "None" else None,
        int(peer) if _NUMBER.fullmatch(peer) else None,
    )  # fmt: skip


def _without_peers(
    program: _Found | None,
    phases: Sequence[FrameRow],
    context: Collection[Phase],
    frames: tuple[Frame, ...],
    view: Meaning,
) -> _Found:
    """Meaning of a stack without a wait for peers or for its GPU, and what the thread waits for."""
    seen, waits = (view, view.waits) if program is None else (program.meaning, program.waits)
    nearest = next((row.meaning for row in phases if row.meaning is not None), None)
    if nearest is not None:
        return _Found(nearest, nearest.waits if waits == "unknown" else waits)
    if "shutdown" in context:
        return _Found(Meaning.LEFT, waits)
    if waits == "lock" or seen.kind == "lock":
        return _Found(seen, waits)
    by_name = next((meaning for phase, meaning in _BY_NAME if phase in context), None)
    if by_name is not None or program is not None:
        return _Found(by_name or seen, waits)
    # in a backward pass, or in a wrapper's forward, with only library frames further in
    for frame in takewhile(lambda frame: not is_user(frame), frames):
        row = _phase_of(frame)
        if row is not None and row.phase in _PASSES:
            # autograd does not sleep: the kernel's state was read a moment before the frames
            return _Found(_PASSES[row.phase], "unknown" if waits == "time" else waits)
    return _Found(seen, waits)


def _phase_of(frame: Frame) -> FrameRow | None:
    """The row of ``PHASES`` that fits a frame; None without one."""
    # the import of a module is not a call of its functions
    return None if frame.native or frame.name == "<module>" else PHASES.of(frame)


# --- how it is written -------------------------------------------------------------------------------------------


def _folded(frames: Sequence[Frame], user: Sequence[Frame], words: str, running: Frame | None = None) -> list[str]:
    """Lines of a stack, outermost first: user frames, one ``[torch]`` per library, then ``⟨waits in all_reduce⟩``.

    Frames equal to ``running`` are written without their line.
    """
    lines: list[str] = []
    ends = 0
    for frame in reversed(frames):
        of_user = frame in user
        line = place(frame, line=frame != running) if of_user else "" if is_carrier(frame) else _library_line(frame)
        if line and (not lines or lines[-1] != line):
            lines.append(line)
        ends = len(lines) if of_user else ends
    return [*lines[:ends], f"⟨{words}⟩"] if words else lines


def _library_line(frame: Frame) -> str:
    name = "native" if frame.native else library(frame.file)
    return "" if name in ("python", "") else f"[{name}]"
