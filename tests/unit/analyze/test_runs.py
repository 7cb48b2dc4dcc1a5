"""Faults that a run outlived are none: steps are counted on behind them, or a later run stands in the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.saved import verdict

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\nValueError: odd {}\n'
OPENING = "loading the tokenizer of this model\nmodel has {} layers of its own\nwriting checkpoints to /ckpt/run\n"


def steps(first: int, last: int, word: str = "step") -> str:
    return "".join(f"{word} {number} loss 2.{number}\n" for number in range(first, last))


@pytest.mark.parametrize(
    "text",
    [
        steps(0, 50) + RAISED.format(1) + steps(50, 400),
        steps(0, 50) + RAISED.format(1) + OPENING.format(8) + steps(0, 60),
        RAISED.format(1) + steps(0, 20) + "line of an evaluation\n" * 60 + "Training completed.\n",
    ],
    ids=["counted on", "counted anew", "finished"],
)
def test_an_outlived_fault_is_none(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text, "rank0.log")
    assert found.findings == ()


@pytest.mark.parametrize(
    "text",
    [
        steps(0, 400) + RAISED.format(1),
        steps(0, 50) + RAISED.format(1) + steps(40, 52),
        steps(0, 50) + RAISED.format(1) + "retrying in 5 s, waiting for the store\n" * 300,
        "".join(f"gn01: {line}\n" for line in (steps(0, 9) + RAISED.format(1)).splitlines())
        + "".join(f"gn02: {line}\n" for line in steps(0, 400).splitlines()),
        OPENING.format(8) + RAISED.format(1) + steps(0, 3),
    ],
    ids=["nothing behind", "buffered steps", "heartbeats", "another host's steps", "too few steps"],
)
def test_the_last_fault_counts(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text, "rank0.log")
    assert found.outcome == "crashed"
    assert "odd 1" in found.summary


BANNER = "W1121 00:12:00.1 70 run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1\n"
FAILED = "E1121 00:12:20 70 api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 26) of binary: python\n"
CANCELLED = "slurmstepd: error: *** JOB 26 ON n7 CANCELLED AT 2026-11-25T02:53:05 DUE TO TIME LIMIT ***\n"


def rank(number: int, text: str) -> str:
    return "".join(f"[rank{number}]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (rank(1, RAISED.format(1)) + CANCELLED, steps(0, 9), ""),
        (rank(1, RAISED.format(1)) + CANCELLED, steps(0, 9) + rank(0, RAISED.format(2)), "odd 2"),
        (RAISED.format(1), steps(0, 2), ""),
    ],
    ids=["still running", "failed anew", "of one process"],
)
def test_a_launcher_that_starts_behind_an_end_begins_another_run(
    tmp_path: Path, first: str, second: str, told: str
) -> None:
    found = verdict(tmp_path, BANNER + steps(0, 4) + first + BANNER + second)
    assert found.outcome == ("crashed" if told else "unknown")
    assert told in found.summary


def test_launchers_of_several_nodes_that_start_one_after_another_are_one_run(tmp_path: Path) -> None:
    found = verdict(tmp_path, BANNER + steps(0, 4) + BANNER + rank(1, RAISED.format(1)) + FAILED)
    assert "odd 1" in found.summary
