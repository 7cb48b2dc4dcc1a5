"""Faults that a run outlived are none: steps are counted on behind them, or a later run stands in the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\nValueError: odd {}\n'
OPENING = "loading the tokenizer of this model\nmodel has {} layers of its own\nwriting checkpoints to /ckpt/run\n"


def steps(first: int, last: int, word: str = "step") -> str:
    return "".join(f"{word} {number} loss 2.{number}\n" for number in range(first, last))


def judged(folder: Path, text: str, name: str = "job.out") -> Verdict:
    (folder / name).write_text(text)
    return diagnose(files_session([folder / name]).job())


@pytest.mark.parametrize(
    "text",
    [
        steps(0, 50) + RAISED.format(1) + steps(50, 400),
        steps(0, 50) + RAISED.format(1) + OPENING.format(8) + steps(0, 60),
        OPENING.format(8) + RAISED.format(1) + OPENING.format(8).replace("8", "9") + "reading shard a\n" * 3,
        RAISED.format(1) + steps(0, 20) + "line of an evaluation\n" * 60 + "Training completed.\n",
        "gn01: " + RAISED.format(1).replace("\n", "\ngn01: ") + steps(50, 400),
    ],
    ids=["counted on", "counted anew", "begun again", "finished", "of one host"],
)
def test_an_outlived_fault_is_none(tmp_path: Path, text: str) -> None:
    verdict = judged(tmp_path, text, "rank0.log")
    assert verdict.findings == ()
    assert "what the run outlived" in verdict.summary, "it is told all the same"


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
    verdict = judged(tmp_path, text, "rank0.log")
    assert verdict.outcome == "crashed"
    assert "odd 1" in verdict.summary


def test_of_several_runs_in_one_file_the_last_ones_fault_counts(tmp_path: Path) -> None:
    run = OPENING.format(8) + "reading shard a\n" * 5
    verdict = judged(tmp_path, run + RAISED.format(1) + run + RAISED.format(2), "rank0.log")
    assert "odd 2" in verdict.summary
