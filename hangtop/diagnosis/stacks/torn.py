"""Looks that say nothing: torn reads of a busy interpreter, and those that met a process that another look held."""

from __future__ import annotations

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.kernel import TRACED


def not_in_time(dump: StackDump) -> bool:
    """A look that took too long at a process which runs: a full node gave the look no CPU, or that one too much."""
    return dump.error.startswith("timeout") and dump.state == "R"


def telling(dumps: list[StackDump], state: str) -> list[StackDump]:
    """Leave out looks that say nothing, where others do. The kernel last showed the process in ``state``.

    A look at a moment when another look held the process shows no call, and the holder instead of what it waits on.
    """
    whole = [dump for dump in dumps if not dump.error.startswith("torn") and not not_in_time(dump)]
    dumps = whole if any(dump.threads for dump in whole) else dumps
    free = [dump for dump in dumps if dump.state != TRACED]
    return free if state != TRACED and any(dump.threads for dump in free) else dumps
