"""The innermost frames of a stack: what the thread waits for there, as the tables of frames tell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frame_table import ALIASES, C10D, PEERS, POINT_TO_POINT, PROGRAM, FrameRow, FrameTable
from hangtop.diagnosis.stacks.frames import function, is_in, is_transparent, is_user
from hangtop.diagnosis.stacks.states import Kind, Meaning

_NUMBER = re.compile(r"[0-9]{1,9}")
"""A node may send anything in its place."""
_NAMED_BY_CALLERS: frozenset[Kind] = frozenset(("collective", "p2p", "init", "store"))


@dataclass(frozen=True, slots=True)
class Innermost:
    """What the innermost frames mean, with the operation, group and peer that the frames around them add."""

    meaning: Meaning
    op: str
    frame: Frame
    """The innermost frame that has a row."""
    world: bool | None = None
    peer: int | None = None
    members: tuple[int, ...] = ()
    """Ranks of the group that is being made, where the arguments tell."""


def _operation(frame: Frame, row: FrameRow) -> str:
    """Name of the operation that a frame of this row stands for, the same in all versions of torch."""
    name = function(frame.name)
    return row.op or ("" if frame.native else ALIASES.get(name, name))


def packs_object(frames: Iterable[Frame]) -> bool:
    """Whether a thread pickles or unpickles within a collective of objects; as it computes, no peer is waited for."""
    inner = next((frame for frame in frames if not frame.native or PEERS.of(frame) is not None), None)
    packs = ("_object_to_tensor", "_tensor_to_object")
    return inner is not None and is_in(inner.file, C10D) and function(inner.name) in packs


def find(frames: Iterable[Frame], table: FrameTable) -> Innermost | None:
    """What the innermost run of library frames (innermost first) means, before user code begins; None without a row.

    The run's outermost frame names the operation: an ``all_gather_object`` is one, although an ``all_gather`` inside of
    it waits.
    """
    found: Innermost | None = None
    for frame in frames:
        if is_user(frame):
            break
        row = table.of(frame)
        if row is None or row.meaning is None:
            if found is not None and not (frame.native or is_transparent(frame.file)):
                break
        elif found is None:
            found = Innermost(row.meaning, _operation(frame, row), frame)
        elif found.meaning is Meaning.NCCL_PROXY:  # whatever operation it was called for, it has not launched that
            break
        elif table is PROGRAM:  # a condition inside of a queue: the queue says more
            found = replace(found, meaning=row.meaning)
        elif row.meaning.kind in _NAMED_BY_CALLERS:
            better = found.frame.native or found.meaning.kind != row.meaning.kind
            meaning = row.meaning if better else found.meaning
            found = replace(found, meaning=meaning, op=_operation(frame, row) or found.op)
        else:
            break
        if found is not None and frame.arguments:
            found = _with_arguments(found, frame)
    if found is not None and found.meaning is Meaning.COLLECTIVE and found.op in POINT_TO_POINT:
        return replace(found, meaning=Meaning.P2P)
    return found


def _with_arguments(found: Innermost, frame: Frame) -> Innermost:
    """Add what a frame's arguments tell; of several frames of a run the outermost has the last word."""
    given = frame.arguments.get
    world = found.world
    if given("group_given") is not None:
        world = given("group_given") == "no"
    elif given("group") == "None":
        world = True
    peer = found.peer
    if found.op in POINT_TO_POINT:
        text = given("src" if "recv" in found.op else "dst", "")
        peer = int(text) if _NUMBER.fullmatch(text) else peer
    members = found.members
    if found.meaning.kind == "init" and (ranks := given("ranks")):
        members = tuple(map(int, _NUMBER.findall(ranks)))
    return replace(found, world=world, peer=peer, members=members)
