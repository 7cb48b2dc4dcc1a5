"""Answers of programs on nodes: nothing beyond the bounds, no control codes, and nothing else is raised."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.fleet import bounds
from collectors.probes.remote.repair import Signalled
from collectors.probes.running import Unreadable, answer
from collectors.samples.probes import Observation, RasAnswer, RecorderFile


def line(fields: Any) -> bytes:
    return json.dumps([type(fields).__name__, fields]).encode()


FILE = RecorderFile(0, "/fr_0", 1.0, "", "", "")


@pytest.mark.parametrize(
    ("good", "most", "wrong"),
    [
        (Observation("a", "b", 1, ""), {"error": bounds.FRAME_TEXT}, {}),
        (FILE, {"why": bounds.TEXT, "data": bounds.ENCODED_TEXT}, {"rank": 1 << 31, "pid": -5, "modified": 1e300}),
        (RasAnswer("", ""), {"why": bounds.TEXT, "data": bounds.ENCODED_TEXT}, {}),
        (Signalled(7, "gone", ""), {"text": bounds.TEXT}, {"pid": 1 << 64}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_texts_and_numbers_beyond_their_bounds_are_refused(
    good: Any, most: dict[str, int], wrong: dict[str, float]
) -> None:
    decode = answer(type(good))
    for field, size in most.items():
        assert decode(line(good._replace(**{field: "x" * size})))
        with pytest.raises(Unreadable):
            decode(line(good._replace(**{field: "x" * (size + 1)})))
    for field, value in wrong.items():
        with pytest.raises(Unreadable):
            decode(line(good._replace(**{field: value})))


def test_control_codes_are_taken_out() -> None:
    hostile = "\x1b]0;x\x07ok\u202e"
    assert answer(Observation)(line(Observation(hostile, hostile, [hostile], hostile))) == ("ok", "ok", ["ok"], "ok")
