"""Looks that are torn: a busy interpreter's frames change while they are read without a pause."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.stacks import Frame, StackDump
from hangtop.diagnosis.stacks.kernel import TRACED, kernel_view
from hangtop.diagnosis.stacks.parsed import begins_a_program
from hangtop.diagnosis.stacks.threads import main_thread

CUT = "torn: its outer frames are missing"
_NOTHING = Frame("", "", 0, native=False)
"""Stands for the outermost frame of a main thread that has none."""


def untorn(dumps: list[StackDump]) -> list[StackDump]:
    """Leave out torn reads of a process that other looks could read, and those that did not end in time."""
    dumps = _cut_ones_as_torn(dumps)
    whole = [dump for dump in dumps if not dump.error.startswith("torn") and not not_in_time(dump)]
    if len(whole) == len(dumps):
        return dumps
    return whole if any(dump.threads for dump in whole) else dumps


def not_in_time(dump: StackDump) -> bool:
    """A look that took too long at a process which runs: a full node gave the look no CPU, or that one too much."""
    return dump.error.startswith("timeout") and dump.state == "R"


def unheld(dumps: list[StackDump], state: str) -> list[StackDump]:
    """Leave out looks at a moment when another look held the process, which the kernel last showed in ``state``.

    They show no call, and the holder instead of what the process waits on.
    """
    free = [dump for dump in dumps if dump.state != TRACED]
    return free if state != TRACED and any(dump.threads for dump in free) else dumps


def _cut_ones_as_torn(dumps: list[StackDump]) -> list[StackDump]:
    """Looks that lost their outer frames are torn ones: what is left of them would pass for another point.

    Known by an outermost frame that begins no program, or none at all, of a main thread that computes, where another
    look at it shows another one. A program that embeds Python may begin anywhere, but always there.
    """
    roots = [_root(dump) for dump in dumps]
    cut = {
        number
        for number, (dump, root) in enumerate(zip(dumps, roots, strict=True))
        if root is not None
        and not begins_a_program(root)
        and dump.method == "nonblocking"
        and kernel_view(dump).waits == "nothing"
    }
    if not cut or len({(root.name, root.file) for root in roots if root is not None}) < 2:
        return dumps
    return [
        dump._replace(threads=[], method="none", error=CUT) if number in cut else dump
        for number, dump in enumerate(dumps)
    ]


def _root(dump: StackDump) -> Frame | None:
    """The outermost Python frame of a rank's own main thread."""
    main = main_thread(dump) if dump.pid == dump.rank_pid else None
    return None if main is None else _outermost(main.frames)


def _outermost(frames: Sequence[Frame]) -> Frame:
    return next((frame for frame in reversed(frames) if not frame.native), _NOTHING)
