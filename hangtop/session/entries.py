"""What a recording holds: entries of a time, a node and a sample, or of one of the kinds here."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.stacks import StackDump


class About(NamedTuple):
    """What was recorded."""

    version: str
    targets: list[str]
    started: float
    interval: float
    patience: float
    label: str
    format: int = 2


class BadLine(NamedTuple):
    """A line of a node that did not decode."""

    text: str
    why: str


class StackLook(NamedTuple):
    """What a look at one process brought, on this machine's clock."""

    dump: StackDump


class End(NamedTuple):
    """The recording was closed: until then was watched, though nothing more came."""


OTHERS = (LinkChange, BadLine, StackLook, RecorderDump, RasReport, End)
"""Kinds of entries that are no samples of a node's stream."""
Payload: TypeAlias = "NamedTuple | LinkChange"


class Entry(NamedTuple):
    """One thing that was taken in."""

    at: float
    node: str
    payload: Payload
