"""Asking a source of the node side again and again, as its runner does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from collectors.node.source import Source

S = TypeVar("S", bound=NamedTuple)
DEADLINE = 60.0


def look(source: Source) -> tuple[list[NamedTuple], Exception | None]:
    """One look: its samples, and what it raised after them."""
    samples: list[NamedTuple] = []
    try:
        for sample in source.read(time.time()):
            samples.append(sample)
    except Exception as error:  # noqa: BLE001 - it is what is tested
        return samples, error
    return samples, None


def looks(source: Source) -> Iterator[tuple[list[NamedTuple], Exception | None]]:
    """Looks without end; the test fails when what it waits for has not come after a minute."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        yield look(source)
        time.sleep(0.02)
    raise AssertionError(f"{source.name}: what was waited for did not come")


def gather(source: Source, kind: type[NamedTuple]) -> list[NamedTuple]:
    """Samples of all looks up to the one that brings a kind, that one's included."""
    gathered: list[NamedTuple] = []
    for samples, _ in looks(source):
        gathered += samples
        if any(isinstance(sample, kind) for sample in samples):
            return gathered
    raise AssertionError("unreachable")


def until(source: Source, kind: type[S], wanted: Callable[[S], bool] = lambda _: True) -> S:
    """The first sample of a kind that is as wanted."""
    for samples, _ in looks(source):
        for sample in samples:
            if isinstance(sample, kind) and wanted(sample):
                return sample
    raise AssertionError("unreachable")


def until_raised(source: Source, kind: type[Exception]) -> Exception:
    """The first exception of a kind."""
    for _, error in looks(source):
        if isinstance(error, kind):
            return error
    raise AssertionError("unreachable")
