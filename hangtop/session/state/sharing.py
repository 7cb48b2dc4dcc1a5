"""One copy of what thousands of ranks have in common: commands, settings, names of GPUs, frames.

Each node tells them anew, so that without this a job of 16,384 ranks would hold "python train.py" 16,384 times.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from collectors.samples.fabric import PortFacts
from collectors.samples.gpus import GpuFacts
from collectors.samples.host import HostFacts
from collectors.samples.ranks import RankProcess
from collectors.samples.stacks import Frame, StackDump
from collectors.samples.stream import Hello, SourceState

S = TypeVar("S", bound=NamedTuple)

STANDING = frozenset({Hello, SourceState, RankProcess, GpuFacts, PortFacts, HostFacts})
"""Kinds that are told once and kept."""
MOST = 16_384
"""Frames and tables that are remembered."""

_frames: dict[tuple[str, str, int, bool], Frame] = {}


def shared(sample: S) -> S:
    """The same sample, made of texts and tables that others have too."""
    return sample._make(map(_shared_value, sample))


def _shared_value(value: Any) -> Any:
    if isinstance(value, str):
        return sys.intern(value)
    return _table(tuple(value.items())) if isinstance(value, dict) else value


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
