"""Ends that only another program tells of: a launcher's report, MPICH, Moab, HTCondor, LSF, whoever ran a child."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read


def _of(tmp_path: Path, text: str, name: str = "job.log") -> list[Finding]:
    (tmp_path / name).write_bytes(text.encode())
    return [one for one in diagnose(job_of(read([tmp_path]))).findings if one.severity != "info"]


def _lsf(job: int, end: str) -> str:
    return (
        "step one of the work\nstep two of the work\n\n"
        "------------------------------------------------------------\n"
        f"Sender: LSF System <lsf@gpu07>\nSubject: Job {job}: <vae> in cluster <c1> "
        f"{'Done' if 'Succ' in end else 'Exited'}\n\n"
        f"{end}\n\nResource usage summary:\n\n    CPU time :  3.00 sec.\n\n"
        "The output (if any) is above this job summary.\n\n"
    )


OWNER = "TERM_OWNER: job killed by owner.\nExited with exit code 130."


def test_a_job_before_that_its_owner_ended_is_not_the_last_one_in_lsfs_file(tmp_path: Path) -> None:
    assert _of(tmp_path, _lsf(1, OWNER) + _lsf(2, "Successfully completed."), "run.out") == []


def test_the_last_job_that_its_owner_ended_was_ended_from_outside(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, _lsf(1, "Successfully completed.") + _lsf(2, OWNER), "run.out")
    assert "no rank failed by itself" in finding.summary


BEGIN = "module tool: this way to set paths is deprecated\n\t(set them in the profile)\nno history was written here\n"
TRIALS = (
    "2025-10-31 {hour}:34:49,149\tINFO runner.py:569 -- a trial is over\n"
    'Traceback (most recent call last):\n  File "pipeline.py", line 685, in <module>\n    main()\n'
    "ValueError: Trials did not complete\n"
)
QUIET = "".join(
    f"2025-10-31 17:1{n % 6}:35,735\tINFO util.py:133 -- part {chr(97 + n % 20)} is saved\n" for n in range(60)
)


def test_a_run_that_failed_at_once_stands_before_the_last_one_in_a_file(tmp_path: Path) -> None:
    text = BEGIN + BEGIN + TRIALS.format(hour="14") + BEGIN + QUIET
    assert _of(tmp_path, text, "run.err") == []


def test_rows_that_come_often_are_no_beginnings(tmp_path: Path) -> None:
    text = (BEGIN + "one more\n") * 40 + TRIALS.format(hour="14") + (BEGIN + "one more\n") * 3
    assert [one.kind for one in _of(tmp_path, text, "run.err")] == ["rank_crashed"]


CHILD = (
    "INFO:flow:  Safety: base\nTraceback (most recent call last):\n"
    '  File "/x/eval_safety.py", line 1020, in <module>\n    main()\n'
    "FileNotFoundError: [Errno 2] No such file or directory: 'eval/all.csv'\n"
)
CAUGHT = "WARNING:flow:Safety eval failed: Command '['python', 'eval_safety.py']' returned non-zero exit status 1.\n"


def test_a_child_s_exception_of_which_its_parent_warns_and_goes_on_is_none(tmp_path: Path) -> None:
    assert _of(tmp_path, CHILD + CAUGHT + "Pipeline complete. Results -> out/\n") == []


@pytest.mark.parametrize("behind", ["", CAUGHT.replace("WARNING", "ERROR"), "WARNING:flow:this takes long\n"])
def test_a_child_s_exception_of_which_nobody_says_so_counts(behind: str, tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, CHILD + behind)] == ["rank_crashed"]


STALL = (
    "Feb 17 11:07:17 n7 kernel: [    4.098147] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: "
    "{{ 1-.... }} {} jiffies s: 45 root: 0x2/.\n"
)


def test_a_grace_period_some_jiffies_late_is_no_stall_of_a_cpu(tmp_path: Path) -> None:
    assert _of(tmp_path, STALL.format(6), "kern.log") == []


def test_a_cpu_that_stands_still_for_seconds_is_one(tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, STALL.format(21003), "kern.log")] == ["kernel_trouble"]


FILES = (
    'Traceback (most recent call last):\n  File "t.py", line 252, in <module>\n    main()\n'
    "OSError: [Errno 24] Too many open files\n"
)
MEMORY = FILES.replace(
    "OSError: [Errno 24] Too many open files", "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB"
)
REPORT = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\nt.py FAILED\n"
    "------------------------------------------------------------\nFailures:\n{others}"
    "------------------------------------------------------------\nRoot Cause (first observed failure):\n"
    "[0]:\n  time      : 2025-10-20_17:25:23\n  host      : n6\n  rank      : 1 (local_rank: 1)\n"
    "  exitcode  : 1 (pid: 1613)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org\n"
    "============================================================\n"
)
OTHER = (
    "[1]:\n  time      : 2025-10-20_17:25:24\n  host      : n6\n  rank      : 0 (local_rank: 0)\n"
    "  exitcode  : {} (pid: 1612)\n  error_file: <N/A>\n  traceback : {}\n"
)


@pytest.mark.parametrize(("raised", "kind"), [(FILES, "open_files_limit"), (MEMORY, "gpu_out_of_memory")])
@pytest.mark.parametrize(
    "others", ["  <NO_OTHER_FAILURES>\n", OTHER.format(-15, "Signal 15 (SIGTERM) received by PID 1612")]
)
def test_what_the_only_rank_that_failed_lacked_is_that_rank_s(
    raised: str, kind: str, others: str, tmp_path: Path
) -> None:
    (finding, *_) = _of(tmp_path, raised + REPORT.format(others=others))
    assert (finding.kind, finding.ranks, finding.nodes) == (kind, (1,), ("n6",))


def test_of_two_ranks_that_failed_nothing_tells_whose_it_is(tmp_path: Path) -> None:
    (finding, *_) = _of(tmp_path, FILES + REPORT.format(others=OTHER.format(1, "To enable traceback see: https://x")))
    assert (finding.kind, finding.ranks) == ("open_files_limit", ())


ABORT = "MPI_ABORT was invoked on rank 4 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"


def test_why_a_rank_called_mpi_abort_is_what_stands_above(tmp_path: Path) -> None:
    text = (
        "ERROR: unspecified launch failure in /x/allocator.cuh at line 176 (error-code 719)\n exiting with an error\n"
    )
    (finding, *_) = _of(tmp_path, text + ABORT)
    assert (finding.kind, finding.ranks) == ("rank_crashed", (4,))
    assert "launch failure" in finding.summary


def test_an_error_of_cuda_is_not_that_of_a_rank_that_a_signal_ended(tmp_path: Path) -> None:
    text = (
        "CUDA error: unspecified launch failure\n"
        "mpirun noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed).\n"
    )
    (finding, *_) = _of(tmp_path, text)
    assert finding.ranks == (3,)
    assert "launch failure" not in finding.summary


def test_of_two_dumps_the_one_that_says_why_counts(tmp_path: Path) -> None:
    text = (
        "[149-130-218-240:10947] [ 7] ./train(+0xf120)[0x55b68d443120]\n"
        "[149-130-218-240:10947] *** End of error message ***\n"
        "train: data/loader.h:186: void open(Loader*, int): Assertion `tokens >= wanted' failed.\n"
        "[149-130-218-240:10948] *** Process received signal ***\n[149-130-218-240:10948] Signal: Aborted (6)\n"
    )
    (finding,) = _of(tmp_path, text)
    assert (finding.kind, finding.nodes) == ("rank_crashed", ("149-130-218-240",))
    assert "tokens" in finding.summary


def test_mpich_names_the_rank_and_the_node_of_an_assertion(tmp_path: Path) -> None:
    text = (
        "Assertion failed in file src/mpi/romio/ad_open.c at line 474: delay_create != 0\n"
        "Rank 7 [Thu Feb 27 22:42:00 2020] [c4-0c0s12n3] internal ABORT - process 7\n"
    )
    (finding,) = _of(tmp_path, text)
    assert (finding.ranks, finding.nodes) == ((7,), ("c4-0c0s12n3",))
    assert "delay_create" in finding.summary


def test_mpich_s_old_manager_kills_the_others(tmp_path: Path) -> None:
    text = "".join(
        f"rank {rank} in job 1958  n7_58821   caused collective abort of all ranks\n"
        f"  exit status of rank {rank}: {how}\n"
        for rank, how in ((3, "killed by signal 9 "), (1, "killed by signal 11 "), (0, "return code 0 "))
    )
    (finding, *_) = _of(tmp_path, text)
    assert (finding.kind, finding.ranks) == ("rank_crashed", (1,))
    assert "SEGV" in finding.summary


@pytest.mark.parametrize(
    ("text", "whose", "node"),
    [
        ("job 3132467 exceeded MEM usage hard limit (2528 > 1126)\n", "Moab", ()),
        (
            "\tError from slot1_7@lab2.example.edu: Docker job has gone over memory limit of 1024 Mb\n...\n",
            "HTCondor", ("lab2.example.edu",),
        ),
    ],
)  # fmt: skip
def test_a_batch_system_that_watches_memory_is_not_the_kernel(
    text: str, whose: str, node: tuple[str, ...], tmp_path: Path
) -> None:
    (finding,) = _of(tmp_path, text)
    assert finding.kind == "rank_killed"
    assert f"by {whose}: it reached its limit of memory" in finding.summary
    assert finding.nodes == node


PIPE = (
    "Exception in thread Thread-3:\nTraceback (most recent call last):\n"
    '  File "/e/lib/python3.9/site-packages/torch/utils/data/_utils/pin_memory.py", line 31, in do_one_step\n'
    "    r = q.get()\n"
    '  File "/e/lib/python3.9/multiprocessing/connection.py", line 498, in Client\n    answer_challenge(c, authkey)\n'
    "ConnectionResetError: [Errno 104] Connection reset by peer\n"
)


def test_a_job_that_is_queued_anew_was_ended_from_outside(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "Epoch 12: 100%|##| 62/62 [00:41, 1.4it/s]Handling auto-requeue signal: 1\n" + PIPE)
    assert "job requeue; no rank failed by itself" in finding.summary


def test_a_pipe_to_a_loader_s_process_is_no_lost_rank(tmp_path: Path) -> None:
    assert not any("lost a peer" in one.summary for one in _of(tmp_path, PIPE))


def test_a_connection_of_the_program_s_own_is_one(tmp_path: Path) -> None:
    own = PIPE.replace("/e/lib/python3.9/multiprocessing/connection.py", "/x/net.py").partition("\n")[2]
    assert any("lost a peer" in one.summary for one in _of(tmp_path, own))


HEADLESS = (
    "[rank0]:     res = self.client.infer(requests)\n"
    '[rank0]:   File "/x/client.py", line 179, in infer\n[rank0]:     raise RuntimeError(f"errors: {errors}")\n'
    "[rank0]: RuntimeError: errors: [Exception('Server 1 failed: 500')]\n"
)


def test_a_bar_that_is_drawn_once_more_is_no_step_behind_an_exception(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, HEADLESS + "\nTrain:   7%|7         | 8/120 [11:30:34<161:08:04, 5179.32s/it]\n")
    assert (finding.kind, finding.ranks) == ("rank_crashed", (0,))


def test_several_steps_behind_it_are_some(tmp_path: Path) -> None:
    steps = "".join(f"Train:   7%|7    | {n}/120 [11:30:34<161:08:04, 5179.32s/it]\n" for n in range(8, 14))
    assert _of(tmp_path, HEADLESS + steps) == []


def test_who_alone_ran_into_a_time_out_is_named(tmp_path: Path) -> None:
    text = (
        "[rank19]:[E ProcessGroupNCCL.cpp:523] [Rank 19] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
        "ran for 600080 milliseconds before timing out.\n"
    )
    assert "on rank 19" in _of(tmp_path, text)[0].summary


SYNTAX = (
    'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    '  File "/x/train.py", line 20, in <module>\n    from .brain import Brain\n'
    '  File "/x/brain.py", line 63\n    def go(self):\n                 ^\n{}: unindent does not match\n'
)
SAVING = (
    'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    '  File "/x/{}.py", line 168, in <module>\n    main()\n'
    "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 22 vs 21\n"
)


def test_a_program_that_did_not_compile_had_been_another_run(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, SYNTAX.format("IndentationError") + SAVING.format("train"))
    assert "unexpected pos" in finding.summary


@pytest.mark.parametrize(("kind", "program"), [("IndentationError", "other"), ("ValueError", "train")])
def test_of_other_programs_or_exceptions_the_first_counts(kind: str, program: str, tmp_path: Path) -> None:
    (finding, *_) = _of(tmp_path, SYNTAX.format(kind) + SAVING.format(program))
    assert kind in finding.summary


def test_fujitsu_s_launcher_names_the_rank(tmp_path: Path) -> None:
    text = "[WARN] PLE 0608 plexec One of MPI processes was aborted.(rank=5)(nid=0xff)(CODE=1903,30,256)(DETAIL=N/A)\n"
    (finding,) = _of(tmp_path, text)
    assert finding.ranks == (5,)


PARTS = "for, gradient failed for Pairs 7\n" + "".join(f"part {c} is timed\n" for c in "abcdefghij")


def test_the_same_words_above_which_the_program_outlived_are_no_end(tmp_path: Path) -> None:
    assert _of(tmp_path, "begin\n" + PARTS + "for, gradient failed for Pairs 20\n") == []


def test_words_of_a_failure_at_the_end_are_one(tmp_path: Path) -> None:
    assert len(_of(tmp_path, "begin\n" + PARTS.partition("\n")[2] + "for, gradient failed for Pairs 20\n")) == 1
