"""What looks like a failure in logs of runs that went well: tests that passed, retries, runs by hand, other hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read

RAISED = (
    'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n    go()\nValueError: bad shard\n'
)
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(20))


def _loud(folder: Path, text: str, name: str = "job.out") -> list[Finding]:
    (folder / name).write_text(text)
    return [found for found in diagnose(job_of(read([folder]))).findings if found.severity != "info"]


SESSION = (
    "{bar} test session starts {bar}\ncollected 2 items\n\n{raised}tests/test_a.py ..\n\n{bar} {told} in 4.10s {bar}\n"
)


@pytest.mark.parametrize("told", ["2 passed", "1 passed, 1 skipped", "2 passed, 1 warning"])
def test_what_is_raised_in_tests_that_pass_is_meant(told: str, tmp_path: Path) -> None:
    assert not _loud(tmp_path, SESSION.format(bar="=" * 20, raised=RAISED, told=told))


@pytest.mark.parametrize("told", ["1 failed, 1 passed", "1 passed, 1 error"])
def test_what_is_raised_in_tests_that_fail_counts(told: str, tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, SESSION.format(bar="=" * 20, raised=RAISED, told=told))
    assert found.kind == "rank_crashed"


def test_what_is_raised_behind_tests_that_pass_counts(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, SESSION.format(bar="=" * 20, raised="", told="2 passed") + RAISED)
    assert found.kind == "rank_crashed"


def test_what_is_raised_before_tests_begin_counts(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, RAISED + SESSION.format(bar="=" * 20, raised="", told="2 passed"))
    assert found.kind == "rank_crashed"


def test_a_session_that_is_longer_than_what_is_kept(tmp_path: Path) -> None:
    rows = RAISED + "".join(f"tests/test_a.py::test_{number} passed\n" for number in range(4000)) + RAISED
    assert not _loud(tmp_path, SESSION.format(bar="=" * 20, raised=rows, told="4000 passed"))


def test_unittest_that_says_ok(tmp_path: Path) -> None:
    assert not _loud(tmp_path, RAISED + "..\n" + "-" * 70 + "\nRan 2 tests in 1.002s\n\nOK\n")
    assert _loud(tmp_path, RAISED + "..\n" + "-" * 70 + "\nRan 2 tests in 1.002s\n\nFAILED (errors=1)\n")


OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.00 GiB. GPU 0 has 79.11 GiB.\n"


@pytest.mark.parametrize(
    "handled", ["Decreasing batch size to: 16.", "OOM, skipping this batch", "retrying with smaller micro-batch"]
)
def test_memory_that_ran_out_and_was_dealt_with(handled: str, tmp_path: Path) -> None:
    assert not _loud(tmp_path, OUT + handled + "\n" + STEPS)
    assert [found.kind for found in _loud(tmp_path, OUT + handled + "\n" + OUT)] == ["gpu_out_of_memory"]


def test_what_a_tracker_could_not_send(tmp_path: Path) -> None:
    error = "ERROR Error while calling the API: context deadline exceeded (<Response [500]>)\n"
    assert not _loud(tmp_path, STEPS + "wandb: " + error)
    assert _loud(tmp_path, STEPS + error)


def test_a_command_that_asks_git_for_a_version(tmp_path: Path) -> None:
    assert not _loud(tmp_path, STEPS + "fatal: not a git repository (or any of the parent directories: .git)\n")
    assert _loud(tmp_path, STEPS + "fatal: could not map the shared segment of this node\n")


PROMPT = "(env) ann@box:~/x$ "


def test_the_last_of_several_commands_at_a_prompt_counts(tmp_path: Path) -> None:
    good, bad = PROMPT + "torchrun train.py --lr 0.1\n" + STEPS, PROMPT + "torchrun train.py\nstep 1\n" + RAISED
    assert not _loud(tmp_path, bad + good)
    assert [found.kind for found in _loud(tmp_path, good + bad)] == ["rank_crashed"]


@pytest.mark.parametrize(
    "command",
    [
        "cat train.log\n",
        "nvidia-smi\n",
        "python check.py\n",
        "python -c 'import torch'\n",
        "python -m torch.utils.collect_env\n",
    ],
)
def test_who_looks_at_what_failed_starts_no_other_run(command: str, tmp_path: Path) -> None:
    text = PROMPT + "torchrun train.py\nstep 1\n" + RAISED + PROMPT + command + "one\ntwo\nthree\nfour\n"
    assert [found.kind for found in _loud(tmp_path, text)] == ["rank_crashed"]


def _run(minute: int, *, end: str) -> str:
    return f"2026-03-01 10:0{minute}:01 launching experiment a\n2026-03-01 10:0{minute}:03 {end}"


DONE = "model built\n2026-03-01 10:09:22 eval accuracy 0.812\n2026-03-01 10:09:23 results saved to out/a.json\n"


def test_a_first_line_that_stands_again_behind_each_end(tmp_path: Path) -> None:
    assert not _loud(tmp_path, _run(1, end=RAISED) + _run(2, end=RAISED) + _run(3, end=DONE))
    assert _loud(tmp_path, _run(1, end=DONE) + _run(2, end=RAISED))


def test_ranks_that_write_one_first_line_each_are_no_runs(tmp_path: Path) -> None:
    both = "2026-03-01 10:01:01 launching experiment a\n"
    assert _loud(tmp_path, both + both + RAISED + both + DONE)


@pytest.mark.parametrize("label", ["gn0{}: ", "worker-{}  | ", "[pod/w-{}/main] "])
def test_files_of_several_hosts_one_behind_the_other(label: str, tmp_path: Path) -> None:
    rows = [
        label.format(n) + line + "\n" for n in range(3) for line in (STEPS + (RAISED if n == 1 else "")).splitlines()
    ]
    (found,) = _loud(tmp_path, "".join(rows))
    assert (found.kind, len(found.nodes)) == ("rank_crashed", 1)
    assert "1" in found.nodes[0]


def test_the_same_as_stern_s_json(tmp_path: Path) -> None:
    rows = [
        json.dumps({"message": line, "nodeName": f"gn{n}", "podName": f"w-{n}", "containerName": "main"}) + "\n"
        for n in range(3)
        for line in (STEPS + (RAISED if n == 1 else "")).splitlines()
    ]
    (found,) = _loud(tmp_path, "".join(rows))
    assert found.nodes == ("w-1",)


def test_one_host_s_own_exception_that_it_outlived(tmp_path: Path) -> None:
    rows = [f"gn0{n}: {line}\n" for n in range(2) for line in ((RAISED if n == 1 else "") + STEPS * 20).splitlines()]
    assert not _loud(tmp_path, "".join(rows))


MOUNT = 'Warning FailedMount pod/{} MountVolume.SetUp failed for volume "c" : rpc error: code = DeadlineExceeded\n'


def test_a_volume_that_came_in_the_end(tmp_path: Path) -> None:
    assert not _loud(tmp_path, MOUNT.format("w-0") + "Normal Started pod/w-0 Started container main\n")
    assert _loud(tmp_path, MOUNT.format("w-0") + "Normal Started pod/w-1 Started container main\n")
    assert _loud(tmp_path, "Normal Started pod/w-0 Started container main\n" + MOUNT.format("w-0"))


LUSTRE = "[2000.{}] Lustre: big-OST0012-osc-ffff: Connection {}\n"


def test_a_lustre_target_that_is_back_by_its_address(tmp_path: Path) -> None:
    lost = LUSTRE.format(1, "to big-OST0012 (at 10.0.0.9@o2ib) was lost; in progress operations will wait")
    assert [found.kind for found in _loud(tmp_path, lost)] == ["storage_stalled"]
    assert not _loud(tmp_path, lost + LUSTRE.format(2, "restored to 10.0.0.9@o2ib (at 10.0.0.9@o2ib)"))


LOST = (
    "(W pid=712, ip=10.0.0.5) [rank1]:[W302 10:20:12.1 TCPStore.cpp:125] [c10d] recvValue failed on "
    "SocketImpl(fd=7, addr=[::ffff:10.0.0.5]:41222, remote=[::ffff:10.0.0.4]:551): failed to recv, got 0 bytes\n"
)


def test_a_store_that_is_gone_behind_the_launcher_s_word_of_the_end(tmp_path: Path) -> None:
    assert not _loud(tmp_path, "Training completed after 2 iterations at 2026-03-02 10:20:11.\n" + LOST)
    assert _loud(tmp_path, LOST)


def _elastic(rest: int) -> str:
    lost = (
        "[1]<stderr>:[2026-03-02 10:00:00.1: E horovod/common/operations.cc:696] [1]: Horovod background loop uncaught "
        "exception: [gloo/transport/tcp/pair.cc:589] Read error [10.0.0.3]:5123: Connection reset by peer\n"
    )
    return (
        lost + "".join(f"[0]<stdout>:batch {n} loss 2.{n}\n" for n in range(rest)) + "[0]<stdout>:training finished\n"
    )


def test_a_rank_that_goes_on_without_another_one(tmp_path: Path) -> None:
    assert not _loud(tmp_path, _elastic(300))
    assert "rank_left_early" not in [found.kind for found in _loud(tmp_path, _elastic(20))]


ENGINE = "ERROR 03-02 10:00:03 [core_client.py:564] Engine core proc X died unexpectedly, shutting down.\n"


def test_an_engine_that_ends_behind_the_trainer_s_summary(tmp_path: Path) -> None:
    assert not _loud(tmp_path, STEPS + "{'train_runtime': 1311.2, 'train_loss': 0.01, 'epoch': 1.0}\n" + ENGINE)
    assert _loud(tmp_path, STEPS + ENGINE)
    assert _loud(tmp_path, STEPS + "{'train_runtime': 1311.2, 'train_loss': 0.01, 'epoch': 1.0}\n" + RAISED)
