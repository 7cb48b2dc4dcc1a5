"""Logs of which only parts are there, from their text to the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session

Judge = Callable[[str], Verdict]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Judges one log."""

    def verdict(text: str) -> Verdict:
        (tmp_path / "a.log").write_text(text)
        return diagnose(files_session([tmp_path]).job())

    return verdict


def roots(verdict: Verdict) -> list[tuple[str, tuple[int, ...]]]:
    """Kinds and ranks of what is told as a cause."""
    return [(found.kind, found.ranks) for found in verdict.findings if not found.cause]


LAUNCHER = (
    'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    '  File "/opt/lib/python3.8/site-packages/torch/distributed/run.py", line 761, in main\n    run(args)\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
)


def test_a_launcher_s_traceback_alone(judge: Judge) -> None:
    assert roots(judge(LAUNCHER)) == [("child_failed_no_detail", ())]


def test_torn_time_outs_compare_with_nothing(judge: Judge) -> None:
    line = "[rank{}]:[E PG.cpp:6] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600) ran for 700 milliseconds\n"  # noqa: E501
    whole = "".join(line.format(rank, rank) for rank in range(3))
    torn = line.format(3, 3)[:108]
    assert [kind for kind, _ in roots(judge(whole + torn + "\n"))] == ["watchdog_timeout"]


def test_why_nccl_failed_stands_before_that_it_did(judge: Judge) -> None:
    warned = "n1:1:2 [0] include/socket.h:361 NCCL WARN Call to connect failed : Connection timed out\n"
    assert [kind for kind, _ in roots(judge(warned + "RuntimeError: NCCL Error 2: unhandled system error\n"))] == [
        "nccl_connect_failed"
    ]


def test_a_traceback_that_is_cut_within_its_first_frame(judge: Judge) -> None:
    assert roots(judge('[rank3]: Traceback (most recent call last):\n[rank3]:   File "/app/tra')) == [
        ("rank_crashed", (3,))
    ]
    assert roots(judge("Traceback (most recent call last):\n")) == []


def test_a_cut_traceback_says_less_than_the_watchdog(judge: Judge) -> None:
    late = (
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=9) ran"
    )
    cut = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    step(batch)\n'
    assert judge(f"RuntimeError: {late} for 9 milliseconds before timing out.\n{cut}").findings[0].kind == (
        "watchdog_timeout"
    )


def test_a_launcher_that_ended_its_ranks(judge: Judge) -> None:
    text = "[2026-11-22 10:00:00,101] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 656\n"
    assert roots(judge(text)) == [("child_failed_no_detail", ())]


RAISED = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nValueError: bad shard\n'


def test_a_log_with_a_hole_is_read_and_a_program_is_not(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_bytes(b"\0" * 70 + b"step 1\n" + b"\0" * 200 + RAISED.encode())
    (tmp_path / "core.bin").write_bytes(bytes(range(256)) * 40 + b"\0" * 4096)
    session = files_session([tmp_path])
    assert [file.why for file in session.files if file.why] == ["binary, and no kind that is known"]
    assert [finding.kind for finding in diagnose(session.job()).findings] == ["rank_crashed"]
