"""What held a node side up, read from the frames that its alarm left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.held_up import DUMP_BYTES, STRIKES, STRIKES_OF_LOG, AtWork, HeldUp, at_work, noted
from collectors.node.logs.parts import mark
from collectors.samples.logs import LogEvent

LOG = mark("/var/log/train 3.log")


def dump(log: str = LOG, part: str = "kernel", before: bytes = b"") -> bytes:
    frames = [f'  File "part:{part}", line 55 in _call'] if part else []
    return (
        before
        + "\n".join(
            [
                "Thread 0x00007f1c (most recent call first):",
                '  File "hangtop:collectors.node.logs.families.kernel", line 9 in event',
                *frames,
                '  File "hangtop:collectors.node.logs.parser", line 61 in feed',
                f'  File "log:{log}", line 80 in _call',
                '  File "/usr/lib/python3.11/threading.py", line 982 in run',
                "",
                "Current thread 0x00007f1d (most recent call first):",
                '  File "part:nccl", line 55 in _call',
                '  File "hangtop:collectors.node.agent", line 88 in run',
                "",
            ]
        ).encode()
    )


def test_the_innermost_part_of_the_thread_that_reads_a_log() -> None:
    assert at_work(dump()) == AtWork(LOG, "kernel")
    assert at_work(dump(part="")) == AtWork(LOG, "")
    assert at_work(dump(before=b"a warning\n")) == AtWork(LOG, "kernel")


@pytest.mark.parametrize("text", [b"", b"Alarm clock", b"Thread 0x1 (most recent call first):\n  <no Python frame>\n"])
def test_a_reader_at_rest_is_not_blamed(text: bytes) -> None:
    assert at_work(text) is None
    assert at_work(dump(log="../etc")) is None


@given(st.lists(st.sampled_from([*dump().split(b"\n"), b"\xff", b'  File "log:', b'  File "part:a"'])), st.binary())
def test_any_dump_is_survived(lines: list[bytes], more: bytes) -> None:
    found = at_work(b"\n".join(lines) + more)
    assert found is None or (found.log == LOG and len(found.part) <= 40)


def test_a_part_is_left_out_only_when_it_was_at_work_twice() -> None:
    held = HeldUp()
    held.note(dump())
    held.note(b"")
    held.note(dump(part="nccl"))
    assert held.unread() == []
    held.note(dump())
    assert held.unread() == [AtWork(LOG, "kernel")]
    assert STRIKES == 2


def unread(part: object, source: str = "/var/log/train 3.log") -> LogEvent:
    return LogEvent("log.unread", 9.0, 3, "node1", 7, source, 1, "on a line here …", {"part": part})  # type: ignore[dict-item]


def test_a_part_that_failed_once_is_left_out_by_the_next_node_side() -> None:
    held = noted(None, [unread("kernel"), unread("kernel")])
    assert held is not None
    assert held.unread() == [AtWork(LOG, "kernel")]
    held.note(dump())
    held.note(dump())
    assert held.unread() == [AtWork(LOG, "kernel")], "once"
    assert noted(None, [unread("kernel")._replace(kind="log.sampled")]) is None


@pytest.mark.parametrize("part", ["", "x" * 41, "a b", 7, None])
def test_what_names_no_part_is_not_sent_back(part: object) -> None:
    held = noted(HeldUp(), [unread(part)])
    assert held is not None
    assert held.unread() == []


def test_no_node_makes_us_remember_more_than_so_many_parts() -> None:
    held = noted(None, [unread("kernel", f"/var/log/{number}") for number in range(2000)])
    assert held is not None
    assert len(held.unread()) == 256


def test_a_log_on_which_part_after_part_fails_is_left_out_as_a_whole() -> None:
    held = HeldUp()
    for part in ("kernel", "nccl", "cuda", "jax")[:STRIKES_OF_LOG]:
        held.note(dump(part=part))
    assert held.unread() == [AtWork(LOG, "")]


def test_what_is_remembered_is_bounded() -> None:
    held = HeldUp()
    for number in range(2000):
        held.note(dump(log=f"{number:08x}"))
        held.note(dump(log=f"{number:08x}"))
    assert len(held.unread()) == 256
    assert at_work(dump(before=b"x" * DUMP_BYTES)) == AtWork(LOG, "kernel")
