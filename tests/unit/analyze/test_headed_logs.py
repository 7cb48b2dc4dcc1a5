"""Logs that begin with what a tool printed, shells that do not find the program, logins that did not come about."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session

TABLE = (
    "Sun Aug 17 00:40:32 2025       \n"
    "+-----------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 535.129.03    Driver Version: 535.129.03    CUDA Version: 12.2   |\n"
    "|-------------------------------+----------------------+----------------------+\n"
    "|   0  NVIDIA H800         On   | 00000000:D1:00.0 Off |                    0 |\n"
    "| N/A   32C    P0    67W / 700W |      4MiB / 81559MiB |      0%      Default |\n"
    "+-----------------------------------------------------------------------------+\n"
)
LIST = "GPU 0: NVIDIA H800 (UUID: GPU-1)\nGPU 1: NVIDIA H800 (UUID: GPU-2)\n"
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(12))
ENDED = STEPS + "slurmstepd: error: *** JOB 26 ON n7 CANCELLED AT 2026-11-25T02:53:05 DUE TO TIME LIMIT ***\n"


def _findings(folder: Path, text: str) -> list[Finding]:
    (folder / "job.out").write_text(text)
    return list(diagnose(files_session([folder]).job()).findings)


@pytest.mark.parametrize("head", [TABLE, LIST, "$ nvidia-smi\n" + TABLE])
def test_a_job_s_output_that_begins_with_its_gpus_is_read_to_its_end(head: str, tmp_path: Path) -> None:
    (finding,) = _findings(tmp_path, head + ENDED)
    assert (finding.kind, finding.nodes) == ("rank_killed", ("n7",))


def test_a_log_of_many_megabytes_below_a_table_is_a_log(tmp_path: Path) -> None:
    (finding,) = _findings(tmp_path, TABLE + "step 1 loss 2.0\n" * (1 << 20) + ENDED)
    assert finding.kind == "rank_killed"


def test_a_table_alone_and_one_with_a_prompt_are_tables(tmp_path: Path) -> None:
    for text in (TABLE, "$ nvidia-smi\n" + TABLE, TABLE * 3):
        (tmp_path / "smi.txt").write_text(text)
        (file,) = files_session([tmp_path]).files
        assert file.kind == "nvidia-smi output"
