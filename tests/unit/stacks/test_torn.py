"""Looks that lost their outer frames, as those at a rank that compiles do."""

from __future__ import annotations

import pytest

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.torn import untorn
from tests.support.stacks import SCRIPT, STDLIB, TORCH, dump, thread

TRACE = f"wrap_fx_proxy {TORCH}/_dynamo/variables/builder.py:9"
INNER = f"DisableContext.__call__.<locals>._fn {TORCH}/_dynamo/eval_frame.py:9"
WHOLE = (TRACE, INNER, f"specialise {SCRIPT}:4", f"<module> {SCRIPT}:90")


def met(*frames: str, at: float, state: str = "R", pid: int = 100, rank_pid: int = 100) -> StackDump:
    call = "none" if state == "R" else "futex"
    return dump(thread(*frames, tid=pid), at=at, state=state, syscall=call, pid=pid, rank_pid=rank_pid)


def test_a_look_without_its_outer_frames_is_left_out_where_others_are_whole() -> None:
    whole, cut = met(*WHOLE, at=1.0), met(TRACE, INNER, at=2.0)
    assert untorn([whole, cut]) == [whole]
    assert untorn([cut, whole]) == [whole]


def test_so_is_one_without_any_frame() -> None:
    whole = met(*WHOLE, at=1.0)
    assert untorn([whole, met(at=2.0), met(at=3.0)]) == [whole]
    gone = [met(at=1.0), met(at=2.0)]
    assert untorn(gone) == gone, "it has left the program"
    last = met(at=2.0, state="S")
    assert untorn([whole, last]) == [whole, last]


def test_where_all_are_cut_at_different_frames_the_rank_is_not_read() -> None:
    looks = untorn([met(TRACE, INNER, at=1.0), met(TRACE, at=2.0)])
    assert [one.error.partition(":")[0] for one in looks] == ["torn", "torn"]
    assert not any(one.threads for one in looks)


def test_a_program_that_embeds_python_begins_anywhere() -> None:
    looks = [met(TRACE, "step_callback engine.py:4", at=at) for at in (1.0, 2.0)]
    assert untorn(looks) == looks


def test_who_sleeps_in_its_exit_handlers_has_left_the_program() -> None:
    looks = [met(*WHOLE, at=1.0), met(f"join {SCRIPT}:7", at=2.0, state="S")]
    assert untorn(looks) == looks


def test_helpers_are_not_compared_with_their_rank() -> None:
    looks = [met(*WHOLE, at=1.0), met("work pool.py:4", at=1.0, pid=101)]
    assert untorn(looks) == looks


@pytest.mark.parametrize(
    ("frames", "left"),
    [
        ([f"select {STDLIB}/selectors.py:415", f"Popen._communicate {STDLIB}/subprocess.py:2108"], False),
        ([f"wait {STDLIB}/threading.py:327", f"_shutdown {STDLIB}/threading.py:1590"], True),
        ([f"wait {STDLIB}/threading.py:327", "close track.py:9"], True),
    ],
    ids=["a library's inner function", "Python's end", "a function of the user's that was to run at the end"],
)
def test_a_wait_that_lost_its_outer_frames_is_no_end_of_a_program(frames: list[str], left: bool) -> None:
    """Between two programs that it ran a rank was read so once, and was told to have left its program."""
    look = met(*frames, at=1.0, state="S")
    assert (activity([look]).kind == "shutdown") is left
