"""Whether a main thread has left its program, by its outermost frames."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.stacks import activity
from tests.support.stacks import STDLIB, dump, thread


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
    look = dump(thread(*frames))
    assert (activity([look]).kind == "shutdown") is left
