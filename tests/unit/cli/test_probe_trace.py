"""``hangtop probe trace`` on files here: the answer as text and JSON, exit codes, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hangtop.cli.main import main

TRACES = Path(__file__).parent.parent.parent / "fixtures" / "traces"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["probe", "trace", *map(str, args)])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_the_answer_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, TRACES / "straggler*")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("SLOW  the others wait for rank 1")
    assert lines[4].split()[:2] == ["1", "613"]
    assert "86%" in lines[4]
    assert lines[4].endswith("6/6")
    assert any(line.startswith("all_reduce") for line in lines)
    assert "1. straggler_rank  (warning" in out
    assert "follows from straggler_rank" in out


def test_the_answer_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    code, out, _ = run(capsys, TRACES / "straggler_rank*.json.gz", tmp_path / "x.json", "--json")
    answer = json.loads(out)
    assert (code, answer["verdict"], answer["backend"], answer["world_size"]) == (1, "slow", "trace", 4)
    assert answer["findings"][0]["kind"] == "straggler_rank"
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1, 2, 3]
    last = answer["ranks"][1]
    assert last["compute"] > 0.8 * last["wall"]
    assert last["compute"] + last["exposed"] + last["idle"] == pytest.approx(last["wall"])
    assert (last["late"], last["late_of"], last["steps"]) == (6, 6, 6)
    assert [one["op"] for one in answer["collectives"]] == ["all_reduce"]
    assert [(one["path"], one["why"]) for one in answer["unread"]] == [
        (str(tmp_path / "x.json"), "no trace: it has no traceEvents")
    ]
