"""The command: answer on standard output, exit code, files that were and were not read, the screen's session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hangtop.cli.main import main

LOGS = Path(__file__).parent.parent.parent / "fixtures" / "logs"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_the_answer_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x00" * 4096)
    (tmp_path / "a.txt").write_bytes((LOGS / "dist_op_DETAIL.txt").read_bytes())
    code, out, err = run(capsys, "analyze", tmp_path, "--json")
    answer = json.loads(out)
    assert (code, err) == (1, "")
    assert (answer["verdict"], answer["findings"][0]["kind"]) == ("hung", "collective_mismatch")
    assert answer["findings"][0]["evidence"][0]["source"] == f"{tmp_path}/a.txt:27"
    assert [(Path(file["path"]).name, file["kind"], file["why"]) for file in answer["files"]] == [
        ("a.txt", "log", ""),
        ("core", None, "binary, and no kind that is known"),
    ]


def test_the_answer_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x00" * 4096)
    code, out, _ = run(capsys, "analyze", LOGS / "norecord.txt", tmp_path / "core")
    assert code == 1
    assert out.startswith("CRASHED  rank 1 ran out of GPU memory")
    assert "1 × log" in out
    assert "core: binary, and no kind that is known" in out


def test_a_good_end_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "analyze", LOGS / "fine.txt", "--json")[0] == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[rank0]:[titan] 2026-06-16 22:30:50 - root - INFO - step: 200  loss:  6.1384  tps: 5,856", "up to step 200"),
        ("[rank0]: loading", "no line that hangtop knows"),
        ('[rank2]:[W112 01:48:44 X.cpp:1] (maybe TCPStore server has shut down too early), with error: Broken pipe',
         "rank 2 lost the connection to the store"),
    ],
)  # fmt: skip
def test_a_log_that_does_not_say_how_the_run_ended_is_undecided(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "job.log").write_text(f"{line}\n")
    code, out, _ = run(capsys, "analyze", tmp_path)
    assert (code, out.partition(" ")[0]) == (5, "UNKNOWN")
    assert said in out.splitlines()[0]


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "analyze", "/no/such/file")
    assert (code, out) == (2, "")
    assert "/no/such/file: no such file" in err
    assert run(capsys, "analyze")[0] == 2


def test_what_is_piped_in_is_read_and_a_full_disk_is_said_in_one_line() -> None:
    words = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "analyze", "-", "--json"]
    log = b'[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 3\n[rank1]: ValueError: bad\n'
    done = subprocess.run(words, input=log, capture_output=True, timeout=180, check=False)
    answer = json.loads(done.stdout)
    assert (answer["verdict"], answer["findings"][0]["ranks"]) == ("crashed", [1])
    assert "standard-input" in answer["files"][0]["path"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, input=log, stdout=full, stderr=subprocess.PIPE, timeout=180, check=False)
    assert done.returncode == 74
    assert done.stderr == b"hangtop: the output cannot be written: No space left on device\n"


def test_profiler_traces_among_the_files_are_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    traces = LOGS.parent / "traces"
    (tmp_path / "cut.json").write_text('{"schemaVersion": 1, "deviceProperties": []')
    files = [traces / f"straggler_rank{rank}.json.gz" for rank in range(4)]
    lines = run(capsys, "analyze", *files)[1].splitlines()
    assert lines[0].startswith("SLOW  the others wait for rank 1")
    own = lines[lines.index("profiler traces:") + 3].split()
    assert (own[0], own[3], own[-1]) == ("1", "86%", "6/6")
    code, out, _ = run(capsys, "analyze", *files, tmp_path, "--json")
    answer = json.loads(out)
    assert (code, answer["verdict"]) == (1, "slow")
    assert [(found["kind"], found["ranks"], found["cause"]) for found in answer["findings"]] == [
        ("straggler_rank", [1], "")
    ]
    assert [file["kind"] for file in answer["files"]] == ["profiler trace"] * 4 + [None]
    assert answer["files"][0]["events"] > 1000
    assert "it has no traceEvents" in answer["files"][4]["why"]
    late = answer["traces"][1]
    assert (late["rank"], late["late"], late["late_of"], late["world_size"]) == (1, 6, 6, 4)
    assert late["compute"] > 0.8 * late["wall"]
    assert late["compute"] + late["exposed"] + late["idle"] == pytest.approx(late["wall"])
