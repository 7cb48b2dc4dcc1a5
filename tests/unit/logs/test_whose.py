"""Whose a line is, in whatever dress a logger names the rank, the host or the process."""

from __future__ import annotations

import pytest

from tests.support.logs import only, parse

FRONTS = [
    "[Rank 3] ", "[rank=3] ", "(rank 3) ", "<rank 3> ", "rank 3 | ", "RANK=3 ", "Rank[3/8] ", "[Rank 3/8] ",
    "(VllmWorker rank=3 pid=71) ", "(Worker_TP3 pid=123) ",
    "[2026-11-22 10:00:00 TP3] ", "[2026-11-22 10:00:00 DP0 TP3] ",
    "[rank3|host7] ", "[host7|rank3] ", "{{rank3}} ", "2026-11-22 10:00:00.123 | rank=3 | ", "[rank 3, host n7] ",
    "[n7][rank3] ", "global_rank 3 ", "[global_rank=3] ", "[Node 1 Rank 3] ",
    "{rank 3} ", "[rank3][pid 71][node7] ",
]  # fmt: skip
LINES = [
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "    main()",
    "ValueError: bad shard",
]


@pytest.mark.parametrize("front", FRONTS)
def test_a_traceback_and_a_line_behind_any_front(front: str) -> None:
    raised = only(parse("".join(front + line + "\n" for line in LINES)), "python.exception")
    assert (raised.rank, raised.data["type"], raised.data["frames"]) == (3, "ValueError", ["train.py:3 in <module>"])
    alone = only(parse(front + "RuntimeError: CUDA error: device-side assert triggered\n"), "torch.cuda_error")
    assert alone.rank == 3


@pytest.mark.parametrize(
    ("front", "host"),
    [
        ("2026-11-22T10:00:00+0000 n7 python[71]: ", "n7"), ("host=n7 ", "n7"), ("[gpu7] ", ""), ("[worker 7] ", ""),
    ],
)  # fmt: skip
def test_a_machine_in_front(front: str, host: str) -> None:
    raised = parse("".join(front + line + "\n" for line in (*LINES[:3], "MemoryError")))
    assert {(event.kind, event.host) for event in raised} == {("python.exception", host), ("host.memory", host)}
