"""The innermost frames of a stack: what the thread waits for there, as the tables of waits tell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.doing import Kind, Waits
from hangtop.diagnosis.stacks.frames import function, is_in, is_transparent, is_user
from hangtop.diagnosis.stacks.tables import is_point_to_point, operation, wait_of
from hangtop.diagnosis.stacks.vocabulary import NativeWait, Wait
from hangtop.diagnosis.stacks.waits import C10D, PACKS, ROOTS

_NUMBER = re.compile(r"[0-9]{1,9}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,20})?")
"""A node may send anything in their place."""
_NAMED_BY_CALLERS: frozenset[Kind] = frozenset(("collective", "p2p", "init", "store"))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A row of the tables, and what the frames around it add: operation, group, peer."""

    row: Wait | NativeWait
    op: str
    frame: Frame
    """The innermost frame that has a row."""
    world: bool | None = None
    peer: int | None = None
    root: int | None = None
    """Whom a collective begins or ends at, where the arguments tell."""
    members: tuple[int, ...] = ()
    """Ranks of the group that is being made, where the arguments tell."""
    within: float | None = None
    """Seconds after which it gives up waiting, where the arguments tell."""

    @property
    def kind(self) -> Kind:
        """Kind of the row; an operation between two ranks is ``p2p`` wherever it is called."""
        return "p2p" if self.row.kind == "collective" and is_point_to_point(self.op) else self.row.kind

    @property
    def waits(self) -> Waits:
        """Whom the row waits for."""
        return self.row.waits


def packs_object(frames: Iterable[Frame]) -> bool:
    """Whether a thread is making bytes of an object, or an object of bytes, within a collective of objects.

    While it computes there it waits for no peer. Native frames further in that wait for a GPU or for peers say more.
    """
    for frame in frames:
        if frame.native:
            if wait_of(frame, generic=False) is not None:
                return False
            continue
        return is_in(frame.file, C10D) and function(frame.name) in PACKS
    return False


def find(frames: Iterable[Frame], *, generic: bool) -> Leaf | None:
    """Row that fits the innermost run of library frames (innermost first), before user code begins; None without one.

    The run's outermost frame names the operation: an ``all_gather_object`` is one, although an ``all_gather`` inside of
    it waits. ``generic`` asks the table of locks and files instead of that of peers and GPUs.
    """
    found: Leaf | None = None
    for frame in frames:
        if is_user(frame):
            break
        row = wait_of(frame, generic=generic)
        if row is None:
            if found is not None and not (frame.native or is_transparent(frame.file)):
                break
            found = _with_arguments(found, frame)
        elif found is None:
            found = _with_arguments(Leaf(row, operation(frame, row), frame), frame)
        elif generic:  # a condition inside of a queue: the queue says more
            found = _with_arguments(replace(found, row=row), frame)
        elif row.kind in _NAMED_BY_CALLERS:
            found = _with_arguments(_named_by(found, frame, row), frame)
        else:
            break
    return found


def _named_by(leaf: Leaf, frame: Frame, row: Wait | NativeWait) -> Leaf:
    """A caller's row replaces that of a native frame, or of another kind; its operation always counts."""
    better = row if isinstance(leaf.row, NativeWait) or leaf.row.kind != row.kind else leaf.row
    return replace(leaf, row=better, op=operation(frame, row) or leaf.op)


def _with_arguments(leaf: Leaf | None, frame: Frame) -> Leaf | None:
    """Add what a frame's arguments tell; of several frames of a run the outermost has the last word."""
    if leaf is None or not frame.arguments:
        return leaf
    given = frame.arguments.get("group_given")
    world = leaf.world
    if given is not None:
        world = given == "no"
    elif frame.arguments.get("group") == "None":
        world = True
    peer = leaf.peer
    if is_point_to_point(leaf.op):
        text = frame.arguments.get("src" if "recv" in leaf.op else "dst", "")
        peer = int(text) if _NUMBER.fullmatch(text) else peer
    root = leaf.root
    if (told := ROOTS.get(leaf.op)) is not None:
        texts = (frame.arguments.get(told, ""), frame.arguments.get(f"group_{told}", ""))
        root = next((int(text) for text in texts if _NUMBER.fullmatch(text)), root)
    members = leaf.members
    if leaf.row.kind == "init" and (told := frame.arguments.get("ranks")):
        members = tuple(map(int, _NUMBER.findall(told)))
    limit = _SECONDS.fullmatch(frame.arguments.get("timeout", ""))
    within = float(limit[0]) if limit is not None and leaf.row.waits == "helper" else leaf.within
    return replace(leaf, world=world, peer=peer, root=root, members=members, within=within)
