"""Tracebacks behind any front, cut anywhere, and within messages."""

from __future__ import annotations

import pytest

from collectors.node.logs import prefixes as line_prefixes
from tests.support.logs import only, parse

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    x()\nValueError: bad shard'


def test_the_front_may_differ_in_its_numbers_alone() -> None:
    front = line_prefixes.before("10:00:01 n7 trainer[77]: Traceback (most", "Traceback (")
    assert front is not None
    assert front.off("9:59:02 n7 trainer[7712]:   File") == "  File"
    assert front.off("10:00:01 m7 trainer[77]:   File") is None
    of_rank = line_prefixes.before("12 rank=3: Traceback (most", "Traceback (")
    assert of_rank is not None
    assert of_rank.off("14 rank=3:   File") == "  File"
    assert of_rank.off("14 rank=5:   File") is None
    assert line_prefixes.before("    Traceback (most", "Traceback (") is None
    assert line_prefixes.before("x" * 200 + "Traceback (most", "Traceback (") is None


def test_behind_a_front_that_no_pattern_knows() -> None:
    text = "".join(f"10:00:0{i} >> unit-{i} ## {line}\n" for i, line in enumerate(TRACEBACK.splitlines()))
    event = only(parse(text), "python.exception")
    assert (event.data["type"], event.data["frame"]) == ("ValueError", "t.py:3 in main")


def test_without_its_head_behind_a_front() -> None:
    text = "".join(f"{i} >> unit ## {line}\n" for i, line in enumerate(TRACEBACK.splitlines()[1:]))
    event = only(parse(text), "python.exception")
    assert (event.data["type"], event.data["headless"]) == ("ValueError", True)


@pytest.mark.parametrize(
    "line",
    [
        '{"level":"ERROR","message":"' + TRACEBACK.replace('"', '\\"').replace("\n", "\\n") + '","rank":3}',
        "(rank 3) on node n7: stderr: b'" + TRACEBACK.replace("\n", "\\n") + "'",
    ],
)
def test_within_a_message(line: str) -> None:
    event = only(parse(line + "\n"), "python.exception")
    assert (event.data["type"], event.data["frame"]) == ("ValueError", "t.py:3 in main")
