"""What the kernel tells of a main thread whose system call may not be seen."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.stacks.kernel import kernel_view
from hangtop.diagnosis.stacks.states import Waits
from tests.support.stacks import dump


@pytest.mark.parametrize(
    ("wchan", "waits"),
    [
        ("hrtimer_nanosleep", "time"),
        ("do_wait", "helper"),
        ("pipe_read", "storage"),
        ("futex_wait_queue_me", "unknown"),
        ("flock_lock_inode_wait", "lock"),
        ("sk_wait_data", "storage"),
        ("rpc_wait_bit_killable", "unknown"),
        ("", "unknown"),
    ],
)
def test_where_it_sleeps_tells_the_call(wchan: str, waits: Waits) -> None:
    assert kernel_view(dump(syscall="", wchan=wchan)).waits == waits


def test_a_call_that_is_seen_says_more_than_where_it_sleeps() -> None:
    assert kernel_view(dump(syscall="wait4", wchan="hrtimer_nanosleep")).waits == "helper"


def test_who_runs_sleeps_nowhere() -> None:
    assert kernel_view(dump(syscall="", wchan="hrtimer_nanosleep", state="R")).waits == "nothing"
