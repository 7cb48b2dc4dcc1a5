"""The source ``ranks`` over a folder that plays /proc, with a clock that each look moves on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collectors.node.ranks import search, source
from collectors.node.ranks.source import RankSource
from collectors.node.source import Shared
from tests.support.fake_proc import FakeProc


class Clock:
    """A monotonic clock that a test moves; the machine was booted just before."""

    CLOCK_BOOTTIME = 7

    def __init__(self) -> None:
        self.now = 1000.0

    def clock_gettime(self, _clock: int) -> float:
        return self.now - 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 5e8 + self.now


class Bench:
    """The source, its /proc, and a clock."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.proc = FakeProc(folder / "proc")
        self.clock = clock
        self.shared = Shared()
        self.source = RankSource(self.shared, str(folder / "proc"), str(folder / "sys"))

    def read(self, pass_by: float = 3.0) -> list[Any]:
        """One look, some seconds after the last."""
        self.clock.now += pass_by
        return list(self.source.read(self.clock.time()))


def of(samples: list[Any], kind: type[NamedTuple]) -> list[Any]:
    return [sample for sample in samples if type(sample) is kind]


def rank_bench(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench whose clock is that of the modules which look at one."""
    clock = Clock()
    for module in (search, source):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.delenv(search.ONLY, raising=False)
    return Bench(folder, clock)
