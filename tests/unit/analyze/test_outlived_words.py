"""What reads like a failure in public logs and is none: Control-C, a queue without a reader, a wait that ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read


def _loud(folder: Path, text: str, name: str = "job.out") -> list[Finding]:
    (folder / name).write_text(text)
    return [found for found in diagnose(job_of(read([folder]))).findings if found.severity != "info"]


def _raised(label: str, file: str, what: str) -> str:
    rows = ["Traceback (most recent call last):", f'  File "{file}", line 34, in <module>', "    main()", what]
    return "".join(f"{label}{row}\n" for row in rows)


INTERRUPTED = "".join(_raised(f"[rank{rank}]: ", "/w/train.py", "KeyboardInterrupt") for rank in (1, 2, 3))
LAUNCHER = _raised("", "/w/start.py", "KeyboardInterrupt")


def test_a_control_c_that_the_first_rank_does_not_tell_of(tmp_path: Path) -> None:
    assert not _loud(tmp_path, INTERRUPTED + LAUNCHER)


def test_ranks_that_lost_a_connection_still_tell_of_the_silent_one(tmp_path: Path) -> None:
    lost = "ConnectionResetError: [Errno 104] Connection reset by peer"
    found = _loud(tmp_path, "".join(_raised(f"[rank{rank}]: ", "/w/train.py", lost) for rank in (1, 2, 3)))[0]
    assert (found.kind, found.ranks) == ("rank_killed", (0,))


def test_what_ended_a_launcher_before_the_run_that_was_interrupted(tmp_path: Path) -> None:
    assert not _loud(tmp_path, _raised("", "/w/start.py", "KeyError: 'WORLD_SIZE'") + INTERRUPTED + LAUNCHER)


def test_what_a_rank_raised_before_a_control_c_counts(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, _raised("[rank0]: ", "/w/train.py", "KeyError: 'shard'") + INTERRUPTED + LAUNCHER)
    assert (found.kind, found.ranks) == ("rank_crashed", (0,))


def test_what_an_unlabelled_rank_raised_before_a_control_c_counts(tmp_path: Path) -> None:
    text = _raised("", "/w/train.py", "KeyError: 'shard'") + _raised("", "/w/train.py", "KeyboardInterrupt")
    (found,) = _loud(tmp_path, text)
    assert "KeyError" in found.summary


FED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/lib/python3.7/multiprocessing/queues.py", line 242, in _feed\n    send_bytes(obj)\n'
    '  File "/opt/lib/python3.7/multiprocessing/connection.py", line 368, in _send\n    n = write(self._handle, buf)\n'
    "{}\n"
)


def test_a_queue_whose_reader_has_gone(tmp_path: Path) -> None:
    told = FED.format("BrokenPipeError: [Errno 32] Broken pipe")
    assert not _loud(tmp_path, "epoch 1 loss 2.0\n" + told + "epoch 2 loss 1.9\nepoch 3 loss 1.8\n")


def test_a_queue_that_cannot_take_what_it_is_given(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, FED.format("TypeError: cannot pickle '_thread.lock' object"))
    assert found.kind == "rank_crashed"


WAITS = "srun: Job 77 step creation still disabled, retrying (Requested nodes are busy)\n"
MADE = "srun: Step created for StepId=77.{}\n"


def test_a_step_that_waited_and_came_about(tmp_path: Path) -> None:
    assert not _loud(tmp_path, MADE.format(1) + WAITS * 30 + MADE.format(2))


def test_a_step_that_still_waits(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, MADE.format(1) + WAITS * 30)
    assert found.kind == "waiting"


@pytest.mark.parametrize(
    "text",
    [
        "[  1527.587] (EE) Segmentation fault at address 0x0\n[  1527.588] (EE) Caught signal 11. Server aborting\n",
        "60 hyphenation exceptions out of 8191\n!  ==> Fatal error occurred, no output PDF file produced!\n",
    ],
)
def test_a_display_server_and_a_typesetter(text: str, tmp_path: Path) -> None:
    assert not _loud(tmp_path, text)
