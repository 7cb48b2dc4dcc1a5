"""Outputs into which several jobs wrote one after the other: the last one counts; what a run left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read

RAISED = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nValueError: bad shard\n'
CANCELLED = "slurmstepd: error: *** JOB {} ON {} CANCELLED AT 2026-11-25T02:53:05 DUE TO {} ***\n"
WORDS = "".join(f"reading part {chr(97 + number % 26)} of the data\n" for number in range(60))
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(300))
BAR = "".join(
    f"05:33:{n:02d}.8 [I] Progress on: {12 + n / 10:.1f}kit/30.0kit rate:1.1s/it remaining:5:19\n" for n in range(60)
)
SIGTERM = (
    "FatalError: `Termination signal` is detected by the operating system.\n"
    '  [TimeInfo: *** Aborted at 1649739461 (unix time) try "date -d @1649739461" if you are using GNU date ***]\n'
    "  [SignalInfo: *** SIGTERM (@0x14ef) received by PID 5379 (TID 0x7f82011f5780) from PID 5359 ***]\n"
)


def _findings(folder: Path, text: str) -> list[Finding]:
    (folder / "job.out").write_text(text)
    return list(diagnose(job_of(read([folder]))).findings)


def test_of_two_jobs_in_one_file_the_last_counts(tmp_path: Path) -> None:
    first = RAISED + CANCELLED.format(1, "n1", "TIME LIMIT")
    (finding,) = _findings(tmp_path, first + WORDS + CANCELLED.format(2, "n2", "PREEMPTION"))
    assert (finding.kind, finding.nodes) == ("rank_killed", ("n2",))
    assert "preemption" in finding.summary


def test_a_job_that_was_begun_anew_is_not_the_one_that_was_cancelled(tmp_path: Path) -> None:
    assert _findings(tmp_path, RAISED + CANCELLED.format(1, "n1", "JOB REQUEUE") + STEPS) == []


def test_last_words_of_ranks_that_were_cancelled_are_no_other_job(tmp_path: Path) -> None:
    words = "".join(
        f'Traceback (most recent call last):\n  File "/x/t.py", line {n}, in f\nKeyboardInterrupt\n' for n in range(99)
    )
    finding, *_ = _findings(tmp_path, STEPS + CANCELLED.format(1, "n1", "TIME LIMIT") + words)
    assert (finding.kind, finding.nodes) == ("rank_killed", ("n1",))


def test_a_job_that_raised_and_was_cancelled_then_is_one_job(tmp_path: Path) -> None:
    findings = _findings(tmp_path, WORDS + RAISED + CANCELLED.format(1, "n1", "TIME LIMIT"))
    assert [finding.kind for finding in findings if not finding.cause] == ["rank_crashed"]


@pytest.mark.parametrize("steps", [STEPS, BAR * 5])
def test_an_exception_after_which_the_run_goes_on_for_long(steps: str, tmp_path: Path) -> None:
    assert _findings(tmp_path, RAISED + steps) == []


def test_an_exception_after_few_steps_more_counts(tmp_path: Path) -> None:
    assert [finding.kind for finding in _findings(tmp_path, STEPS + RAISED + "step 301 loss 2.0\n" * 9)] == [
        "rank_crashed"
    ]


def test_one_of_a_rank_that_is_named_counts_whatever_the_others_write(tmp_path: Path) -> None:
    raised = "".join(f"[rank3]: {line}\n" for line in RAISED.splitlines())
    (finding,) = _findings(tmp_path, raised + STEPS)
    assert (finding.kind, finding.ranks) == ("rank_crashed", (3,))


def test_a_lone_line_of_the_script_s_before_the_steps(tmp_path: Path) -> None:
    assert _findings(tmp_path, "CondaError: Run 'conda init' before 'conda deactivate'\n" + STEPS[:400]) == []


def test_conda_s_errors_after_which_the_script_goes_on(tmp_path: Path) -> None:
    error = "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\n"
    assert _findings(tmp_path, error + WORDS) == []
    assert [finding.kind for finding in _findings(tmp_path, WORDS + error)] == ["rank_crashed"]


def test_paddle_that_was_made_to_end_did_not_fail(tmp_path: Path) -> None:
    assert [finding.kind for finding in _findings(tmp_path, SIGTERM)] == ["rank_killed"]


def _condor(*codes: int) -> str:
    """HTCondor's log of jobs that were submitted one after the other, by what they returned."""
    return "".join(
        f"000 ({71 + n}.000.000) 2026-01-05 09:3{n % 10}:00 Job submitted from host: <10.0.0.1:9618>\n...\n"
        f"005 ({71 + n}.000.000) 2026-01-05 09:3{n % 10}:40 Job terminated.\n"
        f"\t(1) Normal termination (return value {code})\n...\n"
        for n, code in enumerate(codes)
    )


def test_of_the_jobs_in_one_log_of_htcondor_the_last_counts(tmp_path: Path) -> None:
    assert _findings(tmp_path, _condor(1, 127, *[0] * 12)) == []
    assert _findings(tmp_path, _condor(*[1] * 9, 2, 0)) == []
    (finding,) = _findings(tmp_path, _condor(1, 0, 3))
    assert "exit code 3" in finding.summary


def test_what_a_script_raised_beside_a_launcher_is_not_the_only_labelled_rank_s(tmp_path: Path) -> None:
    helper = "Traceback (most recent call last):\n  File \"<stdin>\", line 5, in <module>\nKeyError: 'GPUS'\n"
    rank = "".join(f"[rank4]: {line}\n" for line in RAISED.splitlines())
    launcher = "[2026-01-02 08:14:05,117] [INFO] [launch.py:335:sigkill_handler] Killing subprocess 4711\n"
    (finding,) = _findings(tmp_path, helper + "launching again\n" + rank + launcher)
    assert (finding.ranks, "ValueError: bad shard" in finding.summary) == ((4,), True)


OPENED = "{} [main] reading the plan of this run\n{} [main] 4 parts in /data/plan\n{} [main] cache in /data/cache/{}\n"
"""What a program begins with, at a time of day, and whose cache."""


def _begun(clock: str, number: int) -> str:
    return OPENED.format(*(f"2026-11-25 {clock}:{second:02d}" for second in (1, 2, 3)), number) + WORDS


@pytest.mark.parametrize(
    ("name", "again", "told"),
    [
        ("job.out", _begun("11:00", 2), []),
        ("job.out", _begun("10:00", 2), ["rank_crashed"]),
        ("job.out", _begun("11:00", 2) + RAISED, ["rank_crashed"]),
        ("job.out", _begun("11:00", 2) + "srun: error: n7: task 3: Exited with exit code 1\n", ["rank_crashed"]),
        ("job.out", _begun("11:00", 2).partition("\n")[2], ["rank_crashed"]),
        ("rank2.log", _begun("10:00", 2), []),
        ("rank2.log", _begun("10:00", 2).partition("part b")[0], ["rank_crashed"]),
    ],
)
def test_a_log_that_begins_with_the_same_words_once_more_is_another_run_s(
    name: str, again: str, told: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(_begun("10:00", 1) + RAISED + again)
    findings = diagnose(job_of(read([tmp_path]))).findings
    assert [finding.kind for finding in findings if not finding.cause] == told


def test_rows_that_each_step_has_are_no_beginning(tmp_path: Path) -> None:
    block = "2026-11-25 {}:00 [main] a part was read\n[main] a part was kept for good\n[main] a part was sent to all\n"
    text = block.format("10:00") * 3 + RAISED + block.format("11:00") * 9
    assert [finding.kind for finding in _findings(tmp_path, text)] == ["rank_crashed"]


def test_what_each_run_says_alike_counts_by_the_last_one(tmp_path: Path) -> None:
    begun = (
        "a program reads the plan of this run\nfour parts are in the plan of it\nand all of them are kept in /data\n"
    )
    (tmp_path / "rank2.log").write_text((begun + WORDS + RAISED) * 2)
    assert [finding.kind for finding in diagnose(job_of(read([tmp_path]))).findings] == ["rank_crashed"]
    (tmp_path / "rank2.log").write_text((begun + WORDS + RAISED) * 2 + begun + WORDS)
    assert diagnose(job_of(read([tmp_path]))).findings == ()


FAILED, DONE = "Exited with exit code 1.", "Successfully completed."


def _lsf(job: int, said: str, end: str, *, above: bool) -> str:
    head = f"Sender: LSF System <lsf@n1>\nSubject: Job {job}: <t> in cluster <c> \n\nYour job looked so:\n\n{end}\n\n"
    if above:
        return f"{said}\n{head}The output (if any) is above this job summary.\n\n"
    return f"{head}The output (if any) follows:\n\n{said}\n"


@pytest.mark.parametrize("above", [True, False])
def test_of_jobs_to_which_lsf_added_its_reports_the_last_counts(above: bool, tmp_path: Path) -> None:
    other = RAISED.replace("ValueError: bad shard", "KeyError: 'plan'")
    failed, done = _lsf(1, RAISED, FAILED, above=above), _lsf(2, WORDS, DONE, above=above)
    assert _findings(tmp_path, failed + done) == []
    assert [finding.kind for finding in _findings(tmp_path, done + failed)] == ["rank_crashed"]
    (finding,) = _findings(tmp_path, failed * 2 + _lsf(3, other, FAILED, above=above))
    assert "KeyError" in finding.summary
    (finding,) = _findings(tmp_path, failed + done + _lsf(3, RAISED, FAILED, above=above))
    assert "bad shard" in finding.summary
