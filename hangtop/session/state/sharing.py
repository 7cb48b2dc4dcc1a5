"""One copy of what thousands of ranks have in common: commands, settings, names of GPUs, frames, members of groups.

Each node tells them anew, so that without this a job of 16,384 ranks would hold "python train.py" 16,384 times.
"""

from __future__ import annotations

import sys
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
"""Fields that are another for each rank or node."""
MOST = 16_384
"""Frames, tables and groups that are remembered."""

_frames: dict[tuple[str, str, int, bool], Frame] = {}


def shared(sample: S) -> S:
    """The same sample, made of texts and tables that others have too."""
    if isinstance(sample, GpuProcesses):
        return sample._replace(processes=[shared(process) for process in sample.processes])
    fields = zip(sample._fields, sample, strict=True)
    return sample._make(value if name in OWN else _shared_value(value) for name, value in fields)


def _shared_value(value: Any) -> Any:
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return _table(tuple(value.items()))
    return value


@lru_cache(maxsize=MOST)
def _table(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {sys.intern(name): sys.intern(text) for name, text in items}


def shared_stack(dump: StackDump) -> StackDump:
    """The same dump, made of frames that others have too: most ranks of a job stand at the same few points."""
    threads = [thread._replace(frames=[_frame(frame) for frame in thread.frames]) for thread in dump.threads]
    return dump._replace(threads=threads)


def _frame(frame: Frame) -> Frame:
    if frame.arguments:
        return frame
    place = frame[:4]
    return _frames.setdefault(place, frame) if len(_frames) < MOST else _frames.get(place, frame)


def shared_dump(dump: RecorderDump) -> RecorderDump:
    """The same dump, made of lists of ranks that others have too: each names all members of its groups."""
    return dump._replace(groups={name: _members(tuple(ranks)) for name, ranks in dump.groups.items()})


@lru_cache(maxsize=MOST)
def _members(ranks: tuple[int, ...]) -> list[int]:
    return list(ranks)
