"""Chains that were cut, messages that carry a traceback, labels that number nodes, words about others; and in peace."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read


def _of(tmp_path: Path, text: str, name: str = "job.log") -> list[Finding]:
    (tmp_path / name).write_text(text)
    return [one for one in diagnose(job_of(read([tmp_path]))).findings if one.severity != "info"]


def _trace(last: str, frames: int = 1) -> str:
    lines = "".join(f'  File "/srv/job/part{n}.py", line {n + 10}, in call{n}\n    step{n}()\n' for n in range(frames))
    return f"Traceback (most recent call last):\n{lines}{last}"


def test_of_a_chain_whose_end_is_cut_off_the_exception_before_is_told(tmp_path: Path) -> None:
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    full = "OSError: [Errno 28] No space left on device\n"
    (finding,) = _of(tmp_path, _trace(full) + chain + _trace("  File ", 2))
    assert finding.kind == "rank_crashed"
    assert finding.summary.startswith("a rank failed first: OSError: [Errno 28] No space left on device at ")


def test_a_chain_that_is_whole_tells_its_last_exception(tmp_path: Path) -> None:
    chain = "\nThe above exception was the direct cause of the following exception:\n\n"
    (finding,) = _of(tmp_path, _trace("KeyError: 'shard'\n") + chain + _trace("ValueError: no shard of that name\n"))
    assert "ValueError: no shard of that name" in finding.summary


def _ray_task(cls: str, frames: int) -> str:
    return (
        f"ray.exceptions.RayTaskError(RuntimeError): ray::{cls}.run() (pid=88, ip=10.9.0.4, actor_id=ab)\n"
        + "".join(f'  File "/srv/job/w{n}.py", line {n + 1}, in call\n    go({n})\n' for n in range(frames))
    )


@pytest.mark.parametrize("frames", [2, 9, 40])
def test_what_rays_task_carried_is_told_however_long_its_frames_are(tmp_path: Path, frames: int) -> None:
    text = (
        _trace("") + _ray_task("Driver", frames) + _ray_task("Worker", frames) + "RuntimeError: no such backend: zz\n"
    )
    (finding,) = _of(tmp_path, text)
    assert "RuntimeError: no such backend: zz" in finding.summary
    assert finding.nodes == ("10.9.0.4",)


def test_what_stands_behind_rays_exception_is_not_its_message(tmp_path: Path) -> None:
    text = (
        _trace("") + _ray_task("Driver", 30) + "RuntimeError: no such backend: zz\nValueErrors are counted below: 0\n"
    )
    (finding,) = _of(tmp_path, text)
    assert "counted below" not in finding.summary


REPORT = (
    "train.py FAILED\nFailures:\n[1]:\n  time      : 2026-03-02_10:00:00\n  host      : gq-7\n"
    "  rank      : 6 (local_rank: 2)\n  exitcode  : 1 (pid: 411)\n  error_file: <N/A>\n"
)


def test_skypilots_number_of_a_node_is_no_rank(tmp_path: Path) -> None:
    label = "(worker1, rank=1, pid=22, ip=10.31.0.9) "
    (finding,) = _of(tmp_path, "".join(label + line + "\n" for line in REPORT.splitlines()))
    assert (finding.ranks, finding.nodes) == ((6,), ("gq-7",))


@pytest.mark.parametrize(
    ("label", "node"),
    [
        ("(worker2, rank=2, pid=31, ip=10.31.0.9) ", "10.31.0.9"),
        ("(node-3 pid=31) ", "node-3"),
        ("(head, rank=0, pid=31) ", "head"),
    ],
)
def test_skypilots_label_names_the_node(tmp_path: Path, label: str, node: str) -> None:
    text = _trace("ValueError: a shard is missing\n")
    (finding,) = _of(tmp_path, "".join(label + line + "\n" for line in text.splitlines()))
    assert (finding.ranks, finding.nodes) == ((), (node,))
    assert "ValueError: a shard is missing" in finding.summary


def test_a_task_of_one_node_is_unlabelled_too(tmp_path: Path) -> None:
    text = _trace("ValueError: a shard is missing\n")
    (finding,) = _of(tmp_path, "".join("(tune, pid=41) " + line + "\n" for line in text.splitlines()))
    assert "ValueError: a shard is missing" in finding.summary


AGENT = "torch.distributed.elastic.multiprocessing.api"


def _agent(others: int, size: int) -> str:
    closing = "".join(f"WARNING:{AGENT}:Sending process {700 + n} closing signal SIGTERM\n" for n in range(others))
    return (
        f"Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with {size} nodes.\n{closing}"
        f"ERROR:{AGENT}:failed (exitcode: -11) local_rank: {others} (pid: 799) of binary: /usr/bin/python3\n"
    )


def test_a_local_rank_is_no_rank_where_an_agent_has_few_of_them(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, _agent(1, 6))
    assert (finding.ranks, finding.summary) == ((), "local rank 1 failed first: signal SEGV")


def test_a_local_rank_is_the_rank_where_an_agent_has_all(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, _agent(3, 4))
    assert (finding.ranks, finding.summary) == ((3,), "rank 3 failed first: signal SEGV")


def test_who_timed_out_first_is_told_by_those_who_were_called(tmp_path: Path) -> None:
    front = "[rank5]:[E901 05:20:03.110 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 5] "
    called = (
        "Received a dump signal due to a collective timeout from  rank 34 and we will try our best to dump the debug"
    )
    (finding,) = _of(tmp_path, f"{front}{called} info. Last enqueued NCCL work: 431, last completed NCCL work: 430.\n")
    assert finding.summary.startswith("a collective timed out on rank 34: ")
    assert finding.ranks == ()


def test_a_rank_that_timed_out_itself_is_told_as_such(tmp_path: Path) -> None:
    front = "[rank5]:[E901 05:20:03.110 ProcessGroupNCCL.cpp:616] [Rank 5] "
    work = "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds"
    text = f"{front}Watchdog caught collective operation timeout: {work} before timing out.\n"
    called = (
        "Received a dump signal due to a collective timeout from  rank 34 and we will try our best to dump the debug"
    )
    (finding,) = _of(tmp_path, text + f"{front}{called} info.\n")
    assert finding.summary.startswith("ALLREDUCE #9 of an unnamed group timed out on rank 5 ")


def test_a_watchdogs_line_that_is_folded_behind_its_name_is_read(tmp_path: Path) -> None:
    text = (
        "[E329 19:15:11.775 ProcessGroupNCCL.cpp:565] [Rank 2] Watchdog\ncaught collective operation timeout: "
        "WorkNCCL(SeqNum=7,\nOpType=BROADCAST, NumelIn=10, NumelOut=10, Timeout(ms)=10000) ran for\n"
        "10028 milliseconds before timing out.\n"
    )
    (finding,) = _of(tmp_path, text)
    assert finding.summary.startswith("BROADCAST #7 ")


def test_ranks_behind_a_number_in_brackets_are_missing_to_horovod(tmp_path: Path) -> None:
    text = (
        "[0] [2026-06-26 07:23:58.4: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be "
        "reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 "
        "seconds.\n[0] Missing ranks:\n[0] 2: [allreduce.conv1.weight, allreduce.conv2.weight ...]\n[0] done\n"
    )
    (finding,) = _of(tmp_path, text)
    assert (finding.kind, finding.ranks) == ("collective_mismatch", (2,))


def test_an_assertion_whose_quotes_a_page_took_is_a_kernels(tmp_path: Path) -> None:
    line = "/src/aten/IndexKernel.cu:142: operator(): block: [0,0,0], thread: [44,0,0] Assertion index < n failed.\n"
    (finding,) = _of(tmp_path, line * 3)
    assert finding.summary == "a rank failed first: CUDA error: assertion failed: index < n"


def test_an_abort_that_python_tells_of_follows_from_the_gpus_error(tmp_path: Path) -> None:
    text = (
        "Fatal Python error: Aborted\n\nExtension modules: numpy.core (total: 1)\n"
        "[E ProcessGroupNCCL.cpp:916] [Rank 0] NCCL watchdog thread terminated with exception: CUDA error: "
        "an illegal memory access was encountered\n"
    )
    (finding, *_) = _of(tmp_path, text)
    assert "an illegal memory access was encountered" in finding.summary


def test_an_abort_alone_is_told(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "Fatal Python error: Aborted\n\nExtension modules: numpy.core (total: 1)\n")
    assert finding.summary == "a rank failed first: Aborted"


def test_a_parents_word_of_its_child_is_not_the_rank_whose_label_stands_above(tmp_path: Path) -> None:
    text = (
        "[rank4]:[W823 09:11:05.02 ProcessGroupNCCL.cpp:1624] Warning: WARNING: destroy_process_group() was not called "
        "before program exit, which can leak resources.\n"
        "[2026-08-23 09:11:09] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
    )
    (finding,) = _of(tmp_path, text)
    assert (finding.kind, finding.ranks) == ("child_failed_no_detail", ())


def test_open_mpis_limit_of_time_ends_a_job_from_outside(tmp_path: Path) -> None:
    text = (
        "The user-provided time limit for job execution has been\nreached:\n\n  MPIEXEC_TIMEOUT: 90 seconds\n\n"
        "The job will now be aborted.\n"
    )
    (finding,) = _of(tmp_path, text)
    assert finding.summary == "the job was ended from outside: time limit; no rank failed by itself"


@pytest.mark.parametrize(
    "text",
    [
        "INFO:__main__:Loaded Dataset\nCRITICAL:__main__:Starting finetuning\nINFO:__main__:Model saved to results\n",
        "[ERROR] train.py:40: Loading checkpoint shard 3 of 8\nall shards are here\n",
        "export MPIEXEC_TIMEOUT=90\n+ MPIEXEC_TIMEOUT=90 mpirun -n 4 ./a.out\nhello from 3\n",
        "Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.\n",
        "it means that a child failing now and then is nothing\nall is well\n",
    ],
)
def test_words_in_peace_are_no_failure(tmp_path: Path, text: str) -> None:
    assert _of(tmp_path, text) == []


def test_work_that_failed_is_told_at_that_level(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "CRITICAL:__main__:Loading the checkpoint failed, no such shard\n")
    assert "Loading the checkpoint failed" in finding.summary
