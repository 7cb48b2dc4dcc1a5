"""No line of a log, of a tool's output or of a process's arguments may hold an interpreter."""

import re
import time

import pytest

from collectors.node.logs.parser import LogParser
from collectors.node.logs.prefixes import LONGEST, SEEN, records, seen
from tests.support.backtracking import slow
from tests.support.patterns import Found, patterns


@pytest.mark.slow  # half a minute: every pattern that reads what strangers wrote is tried with what it bears least
def test_no_pattern_backtracks() -> None:
    found = patterns()
    assert len(found) > 400
    assert [one for one in map(slow, found) if one is not None] == []


@pytest.mark.parametrize(
    "pattern", [r"(\d+)+x", r"foo.*bar.*baz", r"\s+\s$", r"([\w.]+)+@", r"(?:a|aa)+$", r"\d+ packets sent"]
)
def test_one_that_does_is_found(pattern: str) -> None:
    assert slow(Found("collectors.probes.made", re.compile(pattern), False)) is not None


@pytest.mark.parametrize("pattern", [r"\bfoo (\d{1,9})", r"foo.{0,100}?bar", r"^\s*\[\d+\]$", r"[^\n]*"])
def test_one_that_does_not_is_left_alone(pattern: str) -> None:
    assert slow(Found("collectors.probes.made", re.compile(pattern), pattern.startswith("^"))) is None


@pytest.mark.parametrize(
    "line",
    [
        "nv_peer_mem invalid context " * 600,
        "nv_peer_mem" + "a" * 16000 + " invalid context",
        "." * 16000 + "INFO Training completed",
        "1" * 16000 + " INFO Training completed",
        "Training completed" + " " * 16000 + "x",
        "Timed out after 1 seconds waiting for clients" + "1" * 16000,
        "Traceback (most recent call last)" + " " * 16000 + "x",
        "oom-kill:constraint=" + "a" * 16000,
        "NVRM: GPU at PCI:0000:01:00 " * 600 + "fallen off the bus",
        "TCPStore " * 1800 + "Connection",
        "NCCL WARN " + "1" * 16000,
        '  File "a", line 1, in ' + " " * 16000 + "x",
        "mlx5_core a: " * 1200 + "link down",
    ],
)
def test_a_hostile_line_is_read_at_once(line: str) -> None:
    parser = LogParser("made.log", now=1.7e9)
    began = time.thread_time()
    parser.feed(line.encode() + b"\n" + line.encode() + b"\n")
    parser.close()
    assert time.thread_time() - began < 0.5


def test_of_a_long_record_the_families_see_its_beginning_and_its_end() -> None:
    whole = "begin " + "x" * 10_000 + " end"
    (record,) = records(whole.encode(), 1, 0.0)
    assert record.text == seen(whole)
    assert len(record.text) == SEEN
    assert record.text.startswith("begin ")
    assert record.text.endswith(" end")
    assert seen("short") == "short"
    (longest,) = records(b"y" * 3 * LONGEST, 1, 0.0)
    assert len(longest.text) == SEEN
