"""Whatever a node sends is decoded, or counted and shown; never raised, never passed on to a terminal."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from typing import NamedTuple

import pytest

from collectors.fleet.clean import clean
from collectors.fleet.decode import Decoder
from collectors.samples.gpus import GpuFault, GpuProcess, GpuProcesses
from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.ranks import ProcessGone
from collectors.samples.stream import Fault, Tick
from tests.support.made import gpu_row

TICK = Tick(1, 2.0, 0.5, 0.25, 4096)


def line(sample: NamedTuple) -> bytes:
    return json.dumps([type(sample).__name__, sample]).encode() + b"\n"


def test_lines_become_samples_however_they_are_cut() -> None:
    fault = Fault("gpus", "a [/markup] text", 3)
    data = (line(fault) + line(TICK)) * 3
    for size in (1, 7, len(data)):
        decoder = Decoder()
        found = [sample for at in range(0, len(data), size) for sample in decoder.feed(data[at : at + size])]
        assert found == [fault, TICK] * 3
        assert decoder.bad_lines() == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'["Tick",[1,2.0,0.5\n', "cut off"),
        (b'["Tick",[1,2.0,0.5,0.25,"x"]]\n', "Expected `int`"),
        (b'["Tick",[1,2.0]]\n', "Expected `array` of"),
        (b'["Tick",{}]\n', "Expected `array`"),
        (b'["Nothing",[]]\n', "unknown kind Nothing"),
        (b"Last login: today\n", "no sample"),
        (b'["Fault",["a","\xff",1]]\n', "Invalid UTF-8|codec"),
        (b'["Fault",["a","\\ud800",1]]\n', "truncated|surrogate"),
        (b'["Fault",["a",' + b"[" * 5000 + b"\n", "cut off"),
        (b'["Fault",["a",' + b"[" * 5000 + b"]]\n", "malformed|truncated|deep|recursion"),
        (b'["Tick",]\n', "cut off"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_lines_are_kept_apart_and_the_next_is_good(data: bytes, why: str) -> None:
    decoder = Decoder()
    assert decoder.feed(data + line(TICK)) == [TICK]
    (bad,) = decoder.bad_lines()
    assert re.search(why, bad.why)
    assert len(bad.text) <= 200


def test_a_bad_sample_costs_its_neighbours_nothing() -> None:
    decoder = Decoder()
    rows = [TICK, [1, 2.0], TICK._replace(seq=3), ["x", 2.0, 0.5, 0.25, 4096], TICK]
    assert decoder.feed(json.dumps(["Tick", *rows]).encode() + b"\n") == [TICK, rows[2], TICK]
    assert [bad.text for bad in decoder.bad_lines()] == ["[1, 2.0]", '["x", 2.0, 0.5, 0.25, 4096]']


def test_all_bad_lines_are_counted_though_few_are_kept() -> None:
    decoder = Decoder()
    decoder.feed(b"Last login: today\n" * 1000)
    bad = decoder.bad_lines()
    assert len(bad) == 16
    assert sum(one.lines for one in bad) == 1000
    assert decoder.bad_lines() == []


def test_a_line_without_end_is_dropped_and_counted() -> None:
    decoder = Decoder()
    assert decoder.feed(b'["Fault",["' + b"x" * 1_000_000) == []
    assert decoder.feed(b"x" * 100_000) == []
    assert decoder.feed(b"x" * 100_000) == []
    assert decoder.feed(b'"]]\n' + line(TICK)) == [TICK]
    (bad,) = decoder.bad_lines()
    assert "longer than 1048576 bytes" in bad.why


def test_no_sign_of_unicode_that_formats_is_left() -> None:
    signs = map(chr, range(sys.maxunicode + 1))
    formats = [sign for sign in signs if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t"]
    assert len(formats) > 2000
    assert [hex(ord(sign)) for sign in formats if clean(sign) not in ("", " ", "\n", "\ufffd")] == []


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain text", "plain text"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;aGk=\x07copied", "copied"),
        ("\x1bP1$qm\x1b\\x", "x"),
        ("\x1b(0x", "x"),
        ("\x9b2Jx", "x"),
        ("10%\r20%\r\n\tend", "10% 20%\n\tend"),
        ("naïve 日本 é", "naïve 日本 é"),
        ("\ud800", "\ufffd"),
        ("[/markup] [link=x]", "[/markup] [link=x]"),
    ],
)
def test_cleaning(text: str, seen: str) -> None:
    assert clean(text) == seen


EVENT = LogEvent("k", 1.0, 0, "", 1, "s", 1, "t", {})


@pytest.mark.parametrize(
    "sample",
    [
        TICK._replace(clock=-1e300), TICK._replace(clock=1e12), TICK._replace(rss=10**23),
        ProcessGone(1 << 63, 5.0), ProcessGone(1 << 40, 5.0), ProcessGone(1, 1e12),
        GpuFault(1_000_000, "", "x"),
        gpu_row(0, utilization=-(1 << 63)), gpu_row(0, memory_utilization=101), gpu_row(0, temperature=5000),
        gpu_row(0, power=1e20), gpu_row(0, power=-1.0), gpu_row(0, sm_clock=1 << 40), gpu_row(0, memory_used=1 << 61),
        GpuProcesses([GpuProcess("b", -5, None, None, "n")]), LogLines("/x", None, 5.0, [""] * 70_000, 1),
        Fault("s", "x" * 5000, 1), EVENT._replace(data={"a": 1e300}), EVENT._replace(data={"a": [1, 10**20]}),
    ],
    ids=lambda sample: repr(sample)[:60],
)  # fmt: skip
def test_a_value_beyond_its_bounds_is_no_sample_and_is_counted(sample: NamedTuple) -> None:
    decoder = Decoder()
    assert decoder.feed(line(sample) + line(TICK)) == [TICK]
    (bad,) = decoder.bad_lines()
    assert "Expected" in bad.why


def test_texts_of_samples_are_cleaned_at_any_depth() -> None:
    hostile = "\x1b]0;title\x07\x1b[31mred\x1b[0m \u202eevil"
    (found,) = Decoder().feed(
        line(LogEvent("k", None, None, "", None, "s", 1, hostile, {"x": hostile, "y": [hostile]}))
    )
    assert isinstance(found, LogEvent)
    assert (found.text, found.data) == ("red evil", {"x": "red evil", "y": ["red evil"]})
