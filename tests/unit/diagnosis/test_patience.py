"""How long a job may stand still, by what it did before and by its own time-outs."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.job import alarm_after
from hangtop.session.job_selection import own_timeout


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("python pretrain.py --distributed-timeout-minutes 30 --tp 2", 1800.0),
        ("python run.py --ddp_timeout=7200 --bf16", 7200.0),
        ("python train.py", None),
        ("python train.py --timeout 5", None),
        ("python train.py --ddp_timeout soon", None),
    ],
)
def test_a_command_may_tell_the_time_out(command: str, seconds: float | None) -> None:
    assert own_timeout([command]) == seconds


def test_the_shortest_time_out_counts() -> None:
    assert own_timeout(["python a.py --ddp_timeout 1800", "python a.py"], [480_000, None, 0]) == 480.0
    assert own_timeout(["python a.py"]) is None


@pytest.mark.parametrize(
    ("usual", "timeout", "seconds"),
    [
        (None, None, 60.0),
        (10.0, None, 60.0),
        (100.0, None, 200.0),
        (600.0, None, 300.0),  # of torch's own ten minutes
        (600.0, 1800.0, 900.0),
        (600.0, 100.0, 60.0),
    ],
)
def test_the_alarm_comes_before_the_job_gives_up(usual: float | None, timeout: float | None, seconds: float) -> None:
    assert alarm_after(60.0, usual, timeout) == seconds
