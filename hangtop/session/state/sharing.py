"""One copy of what thousands of ranks have in common: commands, users, settings, names of GPUs and ports, frames.

Each node tells them anew, so that without this a job of 16,384 ranks would hold "python train.py" 16,384 times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from collectors.samples.collectives import RecorderDump
from collectors.samples.fabric import PortFacts
from collectors.samples.gpus import GpuFacts, GpuProcesses
from collectors.samples.host import HostFacts
from collectors.samples.ranks import RankProcess
from collectors.samples.stacks import Frame, StackDump
from collectors.samples.stream import Hello, SourceState

S = TypeVar("S", bound=NamedTuple)

STANDING = frozenset({Hello, SourceState, RankProcess, GpuFacts, GpuProcesses, PortFacts, HostFacts})
"""Kinds that are told once and kept."""
OWN = frozenset({"stdout", "stderr", "nccl_log", "uuid", "hostname", "boot_id"})
"""Fields that are another for each rank or node; of one sample those that are alike are one."""
MOST = 16_384
"""Values remembered of each type that Python itself does not share."""

_numbers: dict[int, int] = {}
_figures: dict[float, float] = {}
_frames: dict[tuple[str, str, int, bool], Frame] = {}
_tables: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}


def shared(sample: S) -> S:
    """The same sample, made of values that others have too."""
    if isinstance(sample, GpuProcesses):
        return sample._replace(processes=[_common(process) for process in sample.processes])
    common: S = _common(sample)
    return common


def shared_stack(dump: StackDump) -> StackDump:
    """The same dump, made of frames that others have too: most ranks of a job stand at the same few points."""
    threads = [thread._replace(frames=[_frame(frame) for frame in thread.frames]) for thread in dump.threads]
    return dump._replace(threads=threads)


def shared_dump(dump: RecorderDump) -> RecorderDump:
    """The same dump, made of lists of ranks that others have too: each names all members of its groups."""
    return dump._replace(groups={name: _members(ranks) for name, ranks in dump.groups.items()})


@lru_cache(maxsize=MOST)
def _held_once(ranks: tuple[int, ...]) -> list[int]:
    return list(ranks)


def _members(ranks: list[int]) -> list[int]:
    return _held_once(tuple(ranks))


def _frame(frame: Frame) -> Frame:
    if frame.arguments:
        return frame
    place = frame[:4]
    return _frames.setdefault(place, frame) if len(_frames) < MOST else _frames.get(place, frame)


def _common(sample: Any) -> Any:
    fields = zip(sample._fields, sample, strict=True)
    own: dict[object, object] = {}
    return sample._make(
        own.setdefault(value, value) if name in OWN
        else value if (share := _SHARE.get(type(value))) is None
        else share(value)
        for name, value in fields
    )  # fmt: skip


def _number(value: int) -> int:
    return _numbers.setdefault(value, value) if len(_numbers) < MOST else _numbers.get(value, value)


def _table(value: dict[str, str]) -> dict[str, str]:
    if len(_tables) >= MOST:
        return value
    key = tuple(value.items())
    known = _tables.get(key)
    if known is None:
        known = _tables[key] = {sys.intern(name): sys.intern(text) for name, text in key}
    return known


def _figure(value: float) -> float:
    """Limits and rates are whole: 700 W, 400 Gb/s. Times, of which each rank has another, are not."""
    return _figures.setdefault(value, value) if value.is_integer() and len(_figures) < MOST else value


_SHARE: dict[type, Callable[[Any], Any]] = {str: sys.intern, int: _number, float: _figure, dict: _table}
