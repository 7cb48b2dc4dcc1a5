"""Faults that a run outlived: steps, or the word that training is complete, stand long behind them in the same log."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read
from tests.support.reports import STAGE, entry, report

RAISED = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nValueError: bad shard\n'
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(300))
BAR = "".join(f"\r{number}%|####      | {number}/400 [00:{number % 60:02d}<09:00,  1.01s/it]" for number in range(300))
RESTART = (
    "W1125 10:00:00.0 7 torch/distributed/elastic/agent/server/api.py:1] [default] Worker group FAILED. "
    "2/3 attempts left; will restart worker group\n"
)
WORDS = "".join(f"sample {chr(97 + number % 26)} was scored\n" for number in range(90))
STALLED = (
    "[2026-11-25 10:00:00.1: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced"
    ", gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
    "Missing ranks:\n1: [grad.0]\n"
)
OUTLIVED = [
    RAISED,
    "UCX  ERROR no active messages transport to <no debug data>: self/memory - Destination is unreachable\n",
    "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.\n",
    "srun: error: n7: task 3: Exited with exit code 1\n",
    STALLED,
]


def _told(folder: Path, text: str, name: str = "job.out") -> tuple[list[str], str]:
    (folder / name).write_text(text)
    verdict = diagnose(job_of(read([folder])))
    return [finding.kind for finding in verdict.findings if finding.severity != "info"], verdict.summary


@pytest.mark.parametrize("fault", OUTLIVED)
@pytest.mark.parametrize("steps", [STEPS, BAR, STEPS * 40])
def test_a_fault_after_which_the_run_goes_on_is_none(fault: str, steps: str, tmp_path: Path) -> None:
    assert _told(tmp_path, fault)[0] != []
    kinds, summary = _told(tmp_path, STEPS + fault + steps)
    assert kinds == []
    assert "what the run outlived" in summary


@pytest.mark.parametrize("fault", OUTLIVED)
def test_the_same_fault_at_the_end_counts(fault: str, tmp_path: Path) -> None:
    assert _told(tmp_path, STEPS + fault + STEPS + fault)[0] == _told(tmp_path, fault)[0]


def test_what_was_buffered_comes_out_behind_the_traceback(tmp_path: Path) -> None:
    assert _told(tmp_path, RAISED + STEPS[: STEPS.find("step 150")])[0] == ["rank_crashed"]


def test_training_that_is_complete_outlived_what_was_raised_long_before(tmp_path: Path) -> None:
    assert _told(tmp_path, RAISED + WORDS + "Training completed\n")[0] == []
    assert _told(tmp_path, RAISED + "Training completed\n")[0] == ["rank_crashed"]
    assert _told(tmp_path, RAISED + WORDS + "Training completed\n" + RAISED)[0] == ["rank_crashed"]


def test_ranks_that_were_started_anew_outlived_what_they_raised(tmp_path: Path) -> None:
    raised = "".join(f"[rank3]: {line}\n" for line in RAISED.splitlines())
    assert _told(tmp_path, raised + RESTART + STEPS)[0] == []
    assert "rank_crashed" in _told(tmp_path, raised + STEPS)[0]
    assert "rank_crashed" in _told(tmp_path, raised + RESTART + STEPS + raised.replace("bad", "no"))[0]


def test_a_rank_s_own_log_may_go_on(tmp_path: Path) -> None:
    assert _told(tmp_path, RAISED + STEPS, "rank3.log")[0] == []


def test_another_run_that_counts_in_bare_fractions(tmp_path: Path) -> None:
    model = "".join(f"  (layer{number}): Conv2d({number}, {number}, kernel_size=(3, 3))\n" for number in range(400))
    fractions = "".join(f"Test: [{number}0/124] Data 75.7 (96.7) Batch 76.3\n" for number in range(1, 5))
    assert _told(tmp_path, RAISED + model + fractions)[0] == []
    assert _told(tmp_path, RAISED + model)[0] == ["rank_crashed"]


LOGGED = "2026-11-25 10:00:05,000 - app - ERROR - could not read part 7\n"
LATER = "2026-11-25 10:{}:{} - app - INFO - part {} is read\n"


def test_who_logged_an_error_and_wrote_on_for_long_has_outlived_it(tmp_path: Path) -> None:
    assert _told(tmp_path, LOGGED)[0] == ["rank_crashed"]
    assert _told(tmp_path, LOGGED + LATER.format("00", "06,100", 8))[0] == ["rank_crashed"]
    assert _told(tmp_path, LOGGED + LATER.format("04", "06,100", 8))[0] == []
    assert _told(tmp_path, LOGGED + LATER.format("04", "06,100", 8) + LOGGED.replace("10:0", "10:5"))[0] == [
        "rank_crashed"
    ]


def test_heartbeats_behind_a_logged_error_are_no_life(tmp_path: Path) -> None:
    beat = "2026-11-25 10:30:00,000 - app - INFO - still waiting for worker 3\n"
    assert _told(tmp_path, LOGGED + beat)[0] == ["rank_crashed"]


def test_a_logged_exception_that_others_fail_of_later_counts(tmp_path: Path) -> None:
    logged = LOGGED + LOGGED.replace("could not read part 7\n", RAISED)
    late = LATER.format("30", "00,000", 9)
    assert _told(tmp_path, logged + late * 2)[0] == []
    assert _told(tmp_path, logged + late * 2 + RAISED.replace("bad", "no"))[0] != []


def test_an_exception_after_which_others_were_interrupted_is_the_cause(tmp_path: Path) -> None:
    stopped = RAISED.replace("ValueError: bad shard", "KeyboardInterrupt").replace("    go()\n", "    go()\n" * 30)
    said = "[2026-11-25 10:00:05,000][__main__][ERROR] - Error in training loop\n"
    assert _told(tmp_path, said + RAISED + (stopped + "Process 3\n") * 3)[0] == ["rank_crashed"]


def test_threads_that_lose_their_queues_behind_the_end_of_a_run(tmp_path: Path) -> None:
    lost = RAISED.replace("ValueError: bad shard", "OSError: handle is closed")
    assert _told(tmp_path, STEPS + "End training....\n" + lost)[0] == []
    assert _told(tmp_path, STEPS + lost)[0] == ["rank_crashed"]
    assert _told(tmp_path, STEPS + "End training....\n" + RAISED)[0] == ["rank_crashed"]


def test_hydra_s_last_words_are_no_logger_that_goes_on(tmp_path: Path) -> None:
    said = "Error executing job with overrides: ['lr=1']\n" + RAISED + "at the launcher\n" * 60
    assert _told(tmp_path, said)[0] == ["rank_crashed"]


def test_who_is_killed_again_at_the_end_is_killed(tmp_path: Path) -> None:
    assert _told(tmp_path, "Killed\n" + STEPS + "Killed\n" + STEPS * 20)[0] == []
    assert _told(tmp_path, "Killed\n" + STEPS * 20 + "Killed\n")[0] == ["rank_killed"]


def test_a_server_that_found_its_port_taken_and_was_started_anew(tmp_path: Path) -> None:
    taken = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8088): address already in use\n"
    assert _told(tmp_path, taken + "INFO:     Waiting for application shutdown.\n")[0] == ["address_in_use"]
    assert _told(tmp_path, taken + WORDS)[0] == []


def test_a_page_that_raised_on_a_server_that_serves_on_for_hours(tmp_path: Path) -> None:
    served = "".join(LATER.format(f"{at:02d}", "00,000", at) for at in range(1, 50))
    assert _told(tmp_path, RAISED + served)[0] == []
    assert _told(tmp_path, RAISED + served[: served.find("10:10")])[0] == ["rank_crashed"]


def test_a_rank_that_raised_and_a_tracker_that_writes_on_for_hours(tmp_path: Path) -> None:
    written = "".join(LATER.format(f"{at:02d}", "00,000", at) for at in range(1, 50))
    assert _told(tmp_path, STEPS + RAISED + written)[0] == ["rank_crashed"]


def test_steps_that_begin_anew_are_another_run(tmp_path: Path) -> None:
    again = STEPS[: STEPS.find("step 30 ")]
    oom = RAISED.replace("ValueError: bad shard", "RuntimeError: CUDA out of memory. Tried to allocate 4.34 GiB")
    assert _told(tmp_path, STEPS + oom + "loading data\n" + again)[0] == []
    assert _told(tmp_path, STEPS + oom + "step 300 loss 1.0\n" + again)[0] == ["gpu_out_of_memory"]
    assert _told(tmp_path, STEPS + oom + again[: STEPS.find("step 3 ")])[0] == ["gpu_out_of_memory"]
    assert _told(tmp_path, STEPS + oom + again + "srun: error: n7: task 3: Exited with exit code 1\n")[0] != []


def test_a_rank_s_own_log_that_another_process_wrote_on(tmp_path: Path) -> None:
    signal = "*** SIGTERM (@0x4903) received by PID 18735 (TID 0x7ff98a641700) from PID 18691 ***\n"
    assert _told(tmp_path, signal + WORDS, "workerlog.1")[0] == []
    assert _told(tmp_path, signal + WORDS[: WORDS.find("sample z")], "workerlog.1")[0] == ["rank_killed"]


def test_a_thread_that_loses_its_peer_in_front_of_the_end(tmp_path: Path) -> None:
    lost = RAISED.replace("ValueError: bad shard", "EOFError")
    end = "2026-07-14 07:04:38 - LOGS - Averaging\n2026-07-14 07:04:39 - LOGS - Training took 00:09:17.33\n"
    assert _told(tmp_path, STEPS + lost + end)[0] == []
    assert _told(tmp_path, STEPS + RAISED + end)[0] == ["rank_crashed"]


def test_an_error_of_one_of_many_items_that_are_gone_through(tmp_path: Path) -> None:
    item = "[{}/900] [{}] xtSBE8LFhXY - gone for good\n"
    assert _told(tmp_path, item.format(3, "ERROR") + item.format(4, "OK"))[0] == []
    assert _told(tmp_path, item.format(3, "OK") + item.format(4, "ERROR"))[0] == ["rank_crashed"]


def test_a_loader_s_worker_that_is_killed_at_the_end_of_a_run(tmp_path: Path) -> None:
    killed = RAISED.replace(
        "ValueError: bad shard", "RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed. "
    )
    assert _told(tmp_path, STEPS + killed + "step:300 - loss:1.0\n(\"Final validation metrics: {'acc': \"\n")[0] == []
    assert _told(tmp_path, STEPS + killed)[0] != []


def _main(said: str, program: str = "main.py") -> str:
    return (
        f'Traceback (most recent call last):\n  File "{program}", line 121, in <module>\n    main()\n'
        f'  File "/x/run.py", line 7, in main\n    go()\n{said}\n'
    )


@pytest.mark.parametrize(
    ("name", "first", "told"),
    [
        ("workerlog.0", "main.py", ["rank_crashed"]),
        ("workerlog.0", "<string>", ["gpu_out_of_memory"]),
        ("job.out", "main.py", ["gpu_out_of_memory"]),
    ],
)
def test_what_ended_a_program_that_one_process_s_file_shows_once_more_is_an_earlier_run_s(
    name: str, first: str, told: list[str], tmp_path: Path
) -> None:
    early = _main("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 98.00 MiB.", first)
    assert _told(tmp_path, early + WORDS + _main("KeyError: 'LOCAL_RANK'"), name)[0] == told


REFUSED = (
    "(Scorer pid={pid}) ERROR:2026-03-26 22:35:{number:02d},212:Traceback (most recent call last):\n"
    '(Scorer pid={pid})   File "/x/score.py", line 27, in score\n'
    "(Scorer pid={pid})     text, place = found\n"
    "(Scorer pid={pid}) TypeError: cannot unpack non-iterable NoneType object\n"
    "(Scorer pid={pid}) \n"
)
ENDED = "srun: error: n7: task 3: Exited with exit code 1\n"


def test_what_processes_raise_again_and_again_ends_none_of_them(tmp_path: Path) -> None:
    text = "".join(REFUSED.format(pid=40 + number % 2, number=number) for number in range(6))
    assert _told(tmp_path, text)[0] == []
    assert _told(tmp_path, text + ENDED)[0] != []
    assert _told(tmp_path, "".join(REFUSED.format(pid=40 + n, number=n) for n in range(6)))[0] == ["rank_crashed"]
    assert _told(tmp_path, "".join(REFUSED.format(pid=40, number=n) for n in range(2)))[0] == ["rank_crashed"]


REPORTED = report(entry(5, 1, STAGE, error_file="/tmp/te/attempt_0/1/error.json"))


def test_what_a_report_quotes_was_outlived_as_its_rank_s_end_was(tmp_path: Path) -> None:
    assert _told(tmp_path, STEPS + REPORTED)[0] == ["rank_crashed"]
    assert _told(tmp_path, STEPS + REPORTED + STEPS * 40)[0] == []


OF_A_RANK = "".join(f"[rank2]: {line}\n" for line in RAISED.splitlines())
DONE = "[rank2]:[titan] 2026-05-09 10:00:00,000 - root - INFO - Training completed\n"


def test_what_a_rank_raised_in_a_run_before_the_one_that_it_finished_is_none(tmp_path: Path) -> None:
    assert _told(tmp_path, OF_A_RANK + DONE)[0] == []
    assert _told(tmp_path, DONE + OF_A_RANK)[0] == ["rank_crashed"]
    assert _told(tmp_path, OF_A_RANK + DONE.replace("rank2", "rank3"))[0] == ["rank_crashed"]


def test_what_ranks_of_a_run_said_that_its_launcher_gave_up_is_outlived_with_it(tmp_path: Path) -> None:
    assert _told(tmp_path, OF_A_RANK + REPORTED + STEPS * 2)[0] == []
    assert _told(tmp_path, OF_A_RANK + STEPS * 2)[0] == ["rank_crashed"]
    assert _told(tmp_path, OF_A_RANK + REPORTED + STEPS * 2 + REPORTED.replace(": 5 ", ": 6 "))[0] == ["rank_crashed"]


KILLED = "/jobs/sweep.sh: line 105: 1929137 Killed                  python train.py\n"


def test_a_shell_that_goes_on_for_long_behind_a_kill_had_its_reasons(tmp_path: Path) -> None:
    rows = [
        f"2026-05-11 {9 + number // 30:02d}:{number % 30:02d}:00 sample {number} was scored\n" for number in range(60)
    ]
    assert _told(tmp_path, KILLED + "".join(rows))[0] == []
    assert _told(tmp_path, KILLED + "".join(rows[:20]))[0] == ["rank_killed"]
    assert _told(tmp_path, "".join(rows) + KILLED)[0] == ["rank_killed"]


def test_words_like_an_earlier_fault_s_last_line_are_not_that_fault(tmp_path: Path) -> None:
    cut = REPORTED.replace("      step()\n", "      step()\n" + "      pass\n" * 60)
    later = "      pass\nstep 7 loss 2.7\n"
    assert _told(tmp_path, cut + STEPS * 40 + later)[0] == []
