"""Shapes of the rows in the tables of frames: what one frame can tell."""

from __future__ import annotations

from typing import NamedTuple

from hangtop.diagnosis.stacks.doing import Context, Group, Kind, Waits

ANY = ""
"""Instead of names: every function of the file."""


class Wait(NamedTuple):
    """A function in which a thread waits when it is the innermost that anybody but the interpreter wrote."""

    file: str
    """End of the file's path, or a folder within it (with ``/`` at its end)."""
    names: str
    """Names of functions, without their classes (Python before 3.11 gives none), separated by spaces."""
    kind: Kind
    waits: Waits
    label: str
    """For people; ``{op}`` is the operation's name."""
    source: str
    """Where it was looked up."""
    op: str = ""
    """Operation; empty: the function's own name, where ``kind`` has one."""


class Phase(NamedTuple):
    """A function that everything inside of it is a part of."""

    file: str
    names: str
    context: Context
    label: str
    source: str
    kind: Kind | None = None
    """What a thread does in there unless a frame further in says something else; None: only the context is known."""
    waits: Waits = "unknown"


class Owner(NamedTuple):
    """A place in a library that works on one sort of process group."""

    file: str
    names: str
    group: Group
    source: str


class NativeWait(NamedTuple):
    """Beginning of a native function's name, and what a thread in it waits for."""

    symbol: str
    kind: Kind
    waits: Waits
    label: str
    source: str
    op: str = ""
