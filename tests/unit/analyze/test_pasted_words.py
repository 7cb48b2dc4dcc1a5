"""Failures of which little is left: glued to a bar, folded by a page, wrapped in JSON, with the ends of Windows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read


def _of(tmp_path: Path, text: str) -> list[Finding]:
    path = tmp_path / "job.log"
    path.write_bytes(text.encode())
    findings = diagnose(job_of(read([path], lambda *_: None))).findings
    return [one for one in findings if one.severity != "info"]


@pytest.mark.parametrize(
    "line", ["Killedg in train batch: 127687 / 263115", "Killed|####      | 41/100", "Killed% of batches 3/9"]
)
def test_a_shells_word_over_the_beginning_of_a_bar_is_read(tmp_path: Path, line: str) -> None:
    (finding,) = _of(tmp_path, "Total number of batches 263115\n" + line + "\n")
    assert finding.kind == "rank_killed"


@pytest.mark.parametrize("line", ["KilledWorkers: 0 / 8", "Killed 3 / 4 stale jobs", "Overkilled 3 / 4"])
def test_words_that_begin_like_it_are_no_end(tmp_path: Path, line: str) -> None:
    assert _of(tmp_path, "Total number of batches 263115\n" + line + "\n") == []


_HEADLESS = (
    '  File "/opt/train/serve.py", line 491, in run\n    engine = make(config)\n'
    '  File "/opt/train/engine.py", line 71, in make\n    return Engine(config)\n'
    '  File "/opt/train/engine.py", line 93, in __init__\n    self.workers = Work'
)


def test_a_traceback_without_a_head_is_read_in_json_too(tmp_path: Path) -> None:
    plain = _of(tmp_path, _HEADLESS)
    (wrapped,) = _of(tmp_path, "".join(json.dumps({"log": line}) + "\n" for line in _HEADLESS.splitlines()))
    assert [wrapped.summary] == [one.summary for one in plain]
    assert wrapped.kind == "rank_crashed"


def test_json_that_names_a_file_is_no_traceback(tmp_path: Path) -> None:
    text = "".join(json.dumps({"log": f'read File "/data/part{part}.bin" again'}) + "\n" for part in range(4))
    assert _of(tmp_path, text) == []


def test_a_stack_of_mpi_is_read_with_the_line_ends_of_windows(tmp_path: Path) -> None:
    lines = [
        f"[node3:1447852] [{place:2d}] /usr/lib/libmpi.so.40({name}+0x5ea)[0x7fc1ff36d40a]"
        for place, name in enumerate(("ompi_sync_wait_mt", "ompi_request_default_wait", "MPI_Bcast", "main"), 8)
    ]
    plain, ended = _of(tmp_path, "\n".join(lines)), _of(tmp_path, "\r\n".join(lines))
    assert [one.summary for one in ended] == [one.summary for one in plain]
    assert len(ended) == 1


def test_a_python_that_a_launcher_called_is_a_child_though_the_rest_is_cut_off(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.10/site-packages/accelerate/commands/launch.py", line 580, in simple_launcher\n'
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\n"
        "CalledProcessError: Command '['C:\\\\AI\\\\venv\\\\Scripts\\\\python.exe', './train.py',\n'--data=C:/AI"
    )
    (finding,) = _of(tmp_path, text)
    assert finding.kind == "child_failed_no_detail"


def test_a_tool_that_a_rank_called_is_none(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/train/build.py", line 58, in build\n    subprocess.run(command, check=True)\n'
        "CalledProcessError: Command '['ninja', '-v', '--python=/usr/bin/python'"
    )
    (finding,) = _of(tmp_path, text)
    assert finding.kind == "rank_crashed"


_DIED = "Worker proc VllmWorker-6 died unexpectedly\n"


def test_the_error_of_a_gpu_says_why_a_worker_died_without_a_word(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "c10::AcceleratorError:\nCUDA error: unspecified launch failure\n" + _DIED)
    assert (finding.kind, finding.ranks) == ("rank_crashed", (6,))
    assert "unspecified launch failure" in finding.summary


def test_of_several_that_died_so_it_is_not_known_whose_it_was(tmp_path: Path) -> None:
    text = "CUDA error: unspecified launch failure\n" + _DIED + _DIED.replace("6", "2")
    assert all(one.ranks != (6,) for one in _of(tmp_path, text) if one.kind == "rank_crashed")


def test_a_notebooks_cell_is_no_address_of_a_host(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "<ipython-input-11-bda6862c29b1>", line 5, in run\n    go()\n'
        "ValueError: no such shard\n"
    )
    (finding,) = _of(tmp_path, "  File" + text.split("  File", 1)[1])
    assert finding.nodes == ()


def test_a_host_behind_that_word_is_one(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "ERROR ip 10.4.0.7: RuntimeError: bad shard of the data\n")
    assert finding.nodes == ("10.4.0.7",)
