"""Tracebacks behind any front, cut anywhere, and within messages."""

from __future__ import annotations

import pytest

from collectors.node.logs.lines import line_prefixes, structured
from tests.support.logs import kinds, only, parse

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


MIDDLE = '  File "t.py", line 3, in main\n    x()\n  File "t.py", line 9, in x\n    y()\n'


def test_only_the_middle_is_hearsay() -> None:
    event = only(parse("a\nb\nc\nd\n" + MIDDLE), "log.error")
    assert (event.data["told"], event.data["frame"]) == ("stack", "t.py:9 in x")
    assert "log.error" not in kinds(parse("a\nb\nc\nStack (most recent call last):\n" + MIDDLE))
    assert "log.error" not in kinds(parse("a\nb\nc\n2026-11-22 WARNING: slow path\n" + MIDDLE))


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


def test_fields_of_a_structured_logger() -> None:
    line = '{"level":"error","msg":"rank failed","rank":3,"host":"n7","error":"ValueError: x1"}'
    event = only(parse(line + "\n"), "log.error")
    assert (event.rank, event.host, event.data["type"]) == (3, "n7", "ValueError")
    assert structured.unwrapped('{"event": "line", "data": "CUDA error"}', 0.0).text == "CUDA error"
    assert structured.member('            "message": "\\tCUDA \\"error\\"\\n",') == '\tCUDA "error"'
    assert structured.member('  "message": "cut off') == '  "message": "cut off'
    loki = '{"labels": {"pod": "run-worker-2"}, "line": "CUDA error", "timestamp": "2026-11-26T11:53:20.9Z"}'
    assert structured.unwrapped(loki, 0.0)[::3] == ("CUDA error", "run-worker-2")
    fluentd = '{"log": "CUDA error\\n", "kubernetes": {"pod_name": "run-worker-2", "host": "n7"}, "host": "n1"}'
    assert structured.unwrapped(fluentd, 0.0)[::3] == ("CUDA error", "run-worker-2")
    assert structured.unwrapped('{"level": "info", "msg": "all is well", "rank": true}', 0.0).rank is None
    assert structured.unwrapped('{"loss": 0.5}', 0.0).text == '{"loss": 0.5}'
    assert structured.unwrapped("{not json}", 0.0).text == "{not json}"
    assert structured.lines("C:\\new\\path") == ["C:\\new\\path"]


def test_a_level_within_the_message_takes_it_back() -> None:
    """What a tracker passes on at its level for errors."""
    assert kinds(parse("26/11/22 10:00:00 ERROR Tracker: 2026-11-22 10:00:00 INFO [18] logloss:0.002 eval:0.5\n")) == []
    assert kinds(parse("26/11/22 10:00:00 ERROR Tracker: the shard of worker 3 is broken\n")) == ["log.error"]
