"""Looks frames up in the tables of waits and phases."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.doing import Group
from hangtop.diagnosis.stacks.frames import function, is_in
from hangtop.diagnosis.stacks.generic import GENERIC_NATIVE, GENERIC_WAITS
from hangtop.diagnosis.stacks.phases import OWNERS, PHASES
from hangtop.diagnosis.stacks.vocabulary import NativeWait, Owner, Phase, Wait
from hangtop.diagnosis.stacks.waits import ALIASES, NATIVE_WAITS, POINT_TO_POINT, WAITS

Row = TypeVar("Row", Wait, Phase, Owner)


def _first(rows: tuple[Row, ...], path: str, name: str) -> Row | None:
    for row in rows:
        if is_in(path, row.file) and (not row.names or name in row.names.split()):
            return row
    return None


@lru_cache(maxsize=8192)
def _python_wait(path: str, name: str, generic: bool) -> Wait | None:
    return _first(GENERIC_WAITS if generic else WAITS, path, name)


@lru_cache(maxsize=8192)
def _native_wait(symbol: str, generic: bool) -> NativeWait | None:
    rows = GENERIC_NATIVE if generic else NATIVE_WAITS
    return next((row for row in rows if symbol.startswith(row.symbol)), None)


def wait_of(frame: Frame, *, generic: bool) -> Wait | NativeWait | None:
    """Row of a frame in which a rank waits for peers or its GPU or, ``generic``, for what any program waits for."""
    if frame.native:
        return _native_wait(frame.name, generic)
    return _python_wait(frame.file, function(frame.name), generic)


@lru_cache(maxsize=8192)
def _phase(path: str, name: str) -> Phase | None:
    return _first(PHASES, path, name)


def phase_of(frame: Frame) -> Phase | None:
    """Row of a frame that everything inside of it is a part of."""
    # a module that is being imported does nothing of what its functions do
    return None if frame.native or frame.name == "<module>" else _phase(frame.file, function(frame.name))


@lru_cache(maxsize=8192)
def _owner(path: str, name: str) -> Group:
    row = _first(OWNERS, path, name)
    return "" if row is None else row.group


def group_of(frame: Frame) -> Group:
    """Sort of process group that a library's frame works on; empty where it does not tell."""
    if frame.native:
        return "data" if frame.name.startswith("c10d::Reducer::") else ""
    return _owner(frame.file, function(frame.name))


def operation(frame: Frame, row: Wait | NativeWait) -> str:
    """Name of the operation that a frame of this row stands for, the same in all versions of torch."""
    if row.op or isinstance(row, NativeWait):
        return row.op
    name = function(frame.name)
    return ALIASES.get(name, name)


def is_point_to_point(op: str) -> bool:
    """True for an operation between two ranks."""
    return op in POINT_TO_POINT
