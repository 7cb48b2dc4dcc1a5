"""Lines of samples: whatever a text holds, the line is printable ASCII and decodes into the same sample."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node import wire
from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.ranks import RankPulse
from collectors.samples.stream import Settings


@given(st.text(), st.text(max_size=20), st.lists(st.text(max_size=10), max_size=3))
def test_any_text_survives(text: str, key: str, values: list[str]) -> None:
    event = LogEvent("nccl.warn", None, 3, "h", 1, "/x", 0, text, {key: list(values)})
    line = wire.encode(event)
    assert line.endswith(b"\n")
    assert all(32 <= byte < 127 for byte in line[:-1])
    assert msgspec.json.Decoder(tuple[str, LogEvent]).decode(line) == ("LogEvent", event)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes"])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        wire.encode(RankPulse(1, "S", "", value, 0.0, 0, 0, 0, 0, None, None, 0.0))


SETTINGS = Settings(2.0, 0.25, ["SLURM_JOB_ID", "7"], ["/logs/*"], ["*"], [])


def test_settings_are_understood() -> None:
    assert wire.decode_control(json.dumps(["Settings", SETTINGS]).encode()) == SETTINGS
    assert wire.decode_control(b'["Tomorrow", [7]]') is None


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"{}", b"[]", b'["Beat"]', b'["Settings", []]', b'["Settings", 1]', b"\xff\xfe", b"[" * 100_000],
    ids=lambda line: repr(line[:40]),
)  # fmt: skip
def test_a_line_that_is_none_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (json has many reasons)
        wire.decode_control(line)


@pytest.mark.parametrize("half", ["\udc80", "x\udcffy\ud800"])
def test_half_a_surrogate_pair_becomes_a_replacement(half: str) -> None:
    line = wire.encode(LogLines("/x", None, 0.0, [half, "\U0001f600"], 0))
    first, second = msgspec.json.decode(line)[1][3]
    assert second == "\U0001f600"
    assert "\ufffd" in first
