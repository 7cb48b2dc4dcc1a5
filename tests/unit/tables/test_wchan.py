"""What sleeps in the kernel mean, and which of them end by themselves."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.tables.wchan import sleep_at


@pytest.mark.parametrize(
    ("wchan", "says", "ordinary"),
    [
        ("request_wait_answer", "FUSE", False),
        ("rpc_wait_bit_killable", "NFS", False),
        ("percpu_rwsem_wait", "frozen", True),
        ("__percpu_down_read", "frozen", True),
        ("io_schedule", "disk", True),
        ("something_new", "", False),
    ],
)
def test_a_sleep_means(wchan: str, says: str, ordinary: bool) -> None:
    sleep = sleep_at(wchan)
    assert (says in sleep.meaning, sleep.ordinary) == (True, ordinary)
