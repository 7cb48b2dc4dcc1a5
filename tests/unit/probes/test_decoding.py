"""Answers of programs on nodes: nothing beyond the bounds, no control codes, and nothing else is raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from collectors.fleet import bounds
from collectors.node.stacks.flamerecord import FlameRecording
from collectors.node.stacks.pyspy import WantsPySpy
from collectors.probes.remote.repair import Signalled
from collectors.probes.running import Unreadable, answer
from collectors.samples.asked import Observation, PathFigure, RasAnswer, RecorderFile

KINDS: list[type[Any]] = [
    Observation, PathFigure, RasAnswer, RecorderFile, Signalled, FlameRecording, WantsPySpy,
]  # fmt: skip
DECODERS: dict[str, Callable[[bytes], Any]] = {kind.__name__: answer(kind) for kind in KINDS}


def fields(kind: type[Any]) -> list[Any]:
    """Empty fields of every type."""
    made: list[Any] = []
    for hint in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined, unused-ignore]
        name = type(hint.type).__name__
        made.append({"StrType": "", "IntType": 0, "FloatType": 0.0, "BoolType": True, "ListType": []}.get(name))
    return made


ENCODED = [("RecorderFile", "data"), ("RasAnswer", "data"), ("FlameRecording", "stacks")]
"""Kind and field of what may be a whole file."""


def longest(kind: type[Any], place: int) -> int:
    """Characters of the longest text that a field may have."""
    if (kind.__name__, kind._fields[place]) in ENCODED:
        return bounds.ENCODED_TEXT
    return bounds.FRAME_TEXT if kind is Observation else bounds.TEXT


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_texts_and_numbers_beyond_their_bounds_are_refused(kind: type[Any]) -> None:
    decode, good = DECODERS[kind.__name__], fields(kind)
    assert isinstance(decode(json.dumps([kind.__name__, good]).encode()), kind)
    for place, value in enumerate(good):

        def put(other: object, at: int = place) -> bytes:
            return json.dumps([kind.__name__, [*good[:at], other, *good[at + 1 :]]]).encode()

        if isinstance(value, str):
            text = "x" * longest(kind, place)
            assert isinstance(decode(put(text)), kind)
            with pytest.raises(Unreadable):
                decode(put(text + "x"))
        elif type(value) in (int, float):
            with pytest.raises(Unreadable):
                decode(put(1 << 64 if isinstance(value, int) else 1e300))


@pytest.mark.parametrize("kind", [Observation, Signalled], ids=lambda kind: kind.__name__)
def test_control_codes_are_taken_out(kind: type[Any]) -> None:
    hostile = [value if value != "" else "\x1b]0;x\x07ok\u202e" for value in fields(kind)]
    found = DECODERS[kind.__name__](json.dumps([kind.__name__, hostile]).encode())
    assert [text for text in found if isinstance(text, str)]
    assert all(text == "ok" for text in found if isinstance(text, str))
