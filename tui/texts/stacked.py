"""Selects stacks for merging, and turns merged groups into items of lines; pure, no drawing."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import count, duration, of_several, rank_text
from hangtop.diagnosis.stacks.merge import StackGroup
from hangtop.diagnosis.stacks.states import Activity, target_of
from hangtop.session.state import JobState
from tui.frames import where
from tui.looks.format import UNKNOWN
from tui.looks.theme import Colour
from tui.view_model import WaitLookup, letter_of
from tui.widgets.itemlist import Item
from tui.widgets.lines import Content, Piece

Entry = tuple[int, StackDump]
"""Global rank, and one stack of its process or of a helper."""

TOGETHER = 15.0
"""Seconds: a stack that is older than the rank's newest by more than this belongs to an earlier look."""
SETTLED = 1.0
"""Seconds of uncertainty in the time when a rank stopped."""

HOW = {
    "nonblocking": "read without a pause",
    "blocking": "paused briefly for the read",
    "native": "paused briefly, with native frames",
    "none": "no stack could be read",
}
"""Text by :attr:`collectors.samples.stacks.StackDump.method`."""


def entries(state: JobState, since: float | None) -> list[Entry]:
    """The latest look at every rank: all its samples, with helpers; see :func:`newest_of`."""
    numbers = {(node.name, pid): rank.process.rank for node in state.nodes.values() for pid, rank in node.ranks.items()}
    return newest_of(
        [(numbers[node, dump.rank_pid], dump) for node, dump in state.stacks if (node, dump.rank_pid) in numbers], since
    )


def newest_of(found: list[Entry], since: float | None) -> list[Entry]:
    """The latest look at each rank, with all its samples.

    ``since`` is the time when the job stopped. If a rank has a sample from after that, samples from before it are left
    out: together they would show motion.
    """
    newest: dict[int, float] = {}
    for rank, dump in found:
        newest[rank] = max(newest.get(rank, dump.at), dump.at)
    settled = float("-inf") if since is None else since + SETTLED
    return [
        (rank, dump)
        for rank, dump in found
        if dump.at >= newest[rank] - TOGETHER and (dump.at >= settled or newest[rank] < settled)
    ]


def group_item(group: StackGroup, nodes: str, waiting: WaitLookup, *, moves: bool) -> Item:
    """An item for a group of ranks with equal stacks: their wait from the verdict, else from their frames.

    The verdict comes first because frames of a rank that waits below Python do not show the operation. If the job
    ``moves``, two samples at one line do not mean that a rank is frozen.
    """
    doing, many = group.activity, len(group.ranks)
    places = {waiting.place_of.get(rank) for rank in group.ranks}
    place = places.pop() if len(places) == 1 else None
    what, colour = doing.label, Colour.BAD if doing.error else Colour.STRONG
    judged: list[Piece] = []
    if place is not None:
        box = waiting.boxes[place]
        what, colour = box.doing, Colour.BAD if box.blamed else colour
        if box.operation and box.operation not in what:
            what += f" [{box.operation}]"
        if box.blamed:
            judged = [(f" ◀ {'holds' if many == 1 else 'hold'} the others up", Colour.BAD)]
    letter = "" if place is None else f"{letter_of(place)} "
    lines: Content = [
        [
            (f"{count(many, 'rank'):<9} ", Colour.STRONG),
            (f"{group.folded}  ", Colour.ACCENT),
            (f"{nodes}   ", Colour.INFO),
            (f"{letter}{of_several(what, many)}", colour),
            *judged,
            *_notes(doing, what, moves),
        ]
    ]
    if doing.error:
        lines.append([("  ", Colour.TEXT), (f"{doing.error}: {doing.detail}", Colour.WARN)])
    lines += [
        [("  ▸ ", Colour.ACCENT), (line.text, Colour.STRONG)] if line.differs else [(f"    {line.text}", Colour.DIM)]
        for line in group.lines
    ]
    return Item(tuple(lines), group.ranks, apart=True)


def _notes(doing: Activity, what: str, moves: bool) -> list[Piece]:
    """Notes on motion, CPU and kernel waits that ``what`` does not contain."""
    notes: list[Piece] = []
    if doing.moving or (doing.moving is not None and not moves):
        notes.append((" · moving" if doing.moving else " · frozen", Colour.OK if doing.moving else Colour.WARN))
    if doing.cpu is not None:
        notes.append((f" · {doing.cpu:.1f} cores busy", Colour.TEXT))
    if doing.wchan and doing.state == "D":
        notes.append((f" · in the kernel: {doing.wchan}", Colour.BAD))
    if doing.waiting_on and doing.waiting_on not in what:
        notes.append((f" · {_on(doing.waiting_on)}", Colour.TEXT))
    return notes


def full_stack(rank: int, dumps: Iterable[StackDump]) -> Content:
    """The newest full stack of a rank: its own threads, then those of its helpers."""
    latest: dict[int, StackDump] = {}
    for dump in dumps:
        if dump.pid not in latest or latest[dump.pid].at <= dump.at:
            latest[dump.pid] = dump
    lines: Content = []
    for dump in sorted(latest.values(), key=lambda dump: dump.pid != dump.rank_pid):
        whose = rank_text(rank) if dump.pid == dump.rank_pid else f"helper of {rank_text(rank)}"
        lines += [
            [(f"{whose}, pid {dump.pid}", Colour.STRONG), (f"   {HOW.get(dump.method, dump.method)}", Colour.DIM)],
            [(f"  {_standing(dump)}", Colour.TEXT)],
        ]  # fmt: skip
        if dump.error:
            lines.append([("  no frames: ", Colour.WARN), (dump.error, Colour.WARN)])
        if dump.way_out:
            lines.append([("  what would help: ", Colour.DIM), (dump.way_out, Colour.TEXT)])
        lines += [[("  kernel  ", Colour.DIM), (name, Colour.TEXT)] for name in dump.kernel]
        main = dump.main
        for thread in sorted(dump.threads, key=lambda thread: thread is not main):
            state = f"{'running' if thread.active else 'idle'}{'  holds the GIL' if thread.owns_gil else ''}"
            lines += [[], [(f"  {thread.name or 'thread'}", Colour.INFO), (f"  {state}", Colour.DIM)]]
            lines += [
                [(f"    {frame.name}", Colour.TEXT), (f"  {where(frame)}", Colour.DIM)] for frame in thread.frames
            ]
        lines.append([])
    return lines[:-1]


def _standing(dump: StackDump) -> str:
    """Process state, system call and kernel wait in one text, so that a long line breaks after a comma."""
    parts = [f"state {dump.state or UNKNOWN}", f"system call {dump.syscall or UNKNOWN}"]
    parts += [f"kernel wait {dump.wchan}"] if dump.wchan else []
    parts += [_on(dump.waiting_on)] if dump.waiting_on else []
    return ", ".join(parts)


def _on(waiting_on: str) -> str:
    """What a call waits on, as text; for a sleep, the time left."""
    seconds = target_of(waiting_on).seconds
    if seconds is None:
        return f"on {waiting_on}"
    return f"time.sleep, {duration(seconds) if seconds else 'less than 1 s'} left"
