"""Where logs lie: behind pipes, where services are configured, and where ranks left them that have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.node.logs.following.places import LogPlaces, WantedLog, files_behind, logs_of_missing
from collectors.samples.ranks import RankProcess
from tests.support.made import process

CARRIER = """
import os, sys
name, source, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
open("/proc/self/comm", "w").write(name)
nothing = os.open("/dev/null", os.O_RDONLY)
os.dup2(nothing, 0)
out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(out, 1)  # ends the pipe to the test, which waits for that
while True:
    data = os.read(source, 4096)
    if not data:
        break
    os.write(out, data)
"""
"""Reads a pipe by another number than 0, as slurmstepd, conmon and containerd's shim do."""


@contextmanager
def carrier(name: str, source: int, target: Path) -> Iterator[int]:
    words = [sys.executable, "-c", CARRIER, name, str(source), str(target)]
    with subprocess.Popen(words, pass_fds=[source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        try:
            yield process.pid
        finally:
            process.kill()


def pipe_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def test_a_carrier_that_reads_by_any_descriptor_is_found(tmp_path: Path) -> None:
    read, write = os.pipe()
    with carrier("slurmstepd", read, tmp_path / "slurm-7.out"):
        os.close(read)
        assert files_behind(os.getpid(), pipe_of(write), "") == [str(tmp_path / "slurm-7.out")]
    os.close(write)


def test_others_who_hold_the_pipe_are_no_readers(tmp_path: Path) -> None:
    """Ranks that write to one pipe, and programs that carry nobody's output, lead to no file of theirs."""
    read, write = os.pipe()
    with carrier("game", read, tmp_path / "score"), carrier("tee", write, tmp_path / "other"):
        assert files_behind(1, pipe_of(write), "") == []
    os.close(read)
    os.close(write)


def test_an_ancestor_that_reads_is_found_whatever_its_name(tmp_path: Path) -> None:
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as rank, (tmp_path / "launcher.log").open("w"):
        assert files_behind(rank.pid, pipe_of(write), ""), "pytest, the parent, holds the end that reads"
        rank.kill()
    os.close(read)
    os.close(write)


def test_runtimes_keep_logs_by_the_id_of_the_container(tmp_path: Path) -> None:
    name = "ab" * 32
    docker = tmp_path / "var/lib/docker/containers" / name
    docker.mkdir(parents=True)
    (docker / f"{name}-json.log").write_text("")
    kubelet = tmp_path / "var/log/containers"
    kubelet.mkdir(parents=True)
    (kubelet / f"rank-0_train_main-{name}.log").write_text("")
    root = str(tmp_path)
    found = files_behind(os.getpid(), "pipe:[1]", name, root=root)
    assert found == [str(docker / f"{name}-json.log"), str(kubelet / f"rank-0_train_main-{name}.log")]
    assert files_behind(os.getpid(), "pipe:[1]", "job_17/step_0", root=root) == []
    assert files_behind(os.getpid(), "pipe:[1]", "*" * 64, root=root) == []


def test_the_log_of_fabric_manager_is_followed(tmp_path: Path) -> None:
    assert list(LogPlaces(root=str(tmp_path)).of_services()) == []
    usual = tmp_path / "var/log/fabricmanager.log"
    usual.parent.mkdir(parents=True)
    usual.write_text("")
    assert [(log.path, log.rank) for log in LogPlaces(root=str(tmp_path)).of_services()] == [(str(usual), None)]


def ranks(*numbers: int, first: int = 0, **fields: Any) -> list[RankProcess]:
    """Ranks of a node whose first one is ``first``."""
    given = {"started": time.time() - 60, "local_world_size": 2, **fields}
    return [process(number, local_rank=number - first, **given) for number in numbers]


def wanted(path: Path, rank: int, stream: str = "stderr") -> WantedLog:
    return WantedLog(str(path), 1000 + rank, rank, stream, "")


def files(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("iter 3\n")
    return [folder / name for name in names]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("rank3.err", "rank2.err"),
        ("rank003.err", "rank002.err"),
        ("4711_3.out", "4711_2.out"),
        ("elastic/attempt_0/1/stderr.log", "elastic/attempt_0/0/stderr.log"),
    ],
)
def test_the_log_of_the_rank_that_is_gone_is_found(tmp_path: Path, mine: str, theirs: str) -> None:
    own, other = files(tmp_path, mine, theirs)
    here = ranks(3, first=2)
    assert list(logs_of_missing(here, [wanted(own, 3)])) == [WantedLog(str(other), None, 2, "stderr", "", here[0].uid)]


def test_no_log_is_taken_from_before_of_another_owner_or_of_a_rank_that_is_here(tmp_path: Path) -> None:
    mine, old = files(tmp_path, "rank3.err", "rank2.err")
    here = ranks(3, first=2)
    os.utime(old, (time.time() - 3600,) * 2)
    assert list(logs_of_missing(here, [wanted(mine, 3)])) == []
    os.utime(old)
    assert len(list(logs_of_missing(here, [wanted(mine, 3)]))) == 1
    assert list(logs_of_missing(here, [wanted(mine, 3), WantedLog(str(old), 9, None, "stdout", "")])) == []
    if os.geteuid() == 0:
        os.chown(old, 4711, 4711)
        assert list(logs_of_missing(here, [wanted(mine, 3)])) == []


def test_what_is_no_file_or_says_another_rank_is_not_opened(tmp_path: Path) -> None:
    mine, _ = files(tmp_path, "job3/rank1.err", "job2/rank1.err")
    assert list(logs_of_missing(ranks(3, first=2), [wanted(mine, 3)])) == []
    (mine,) = files(tmp_path, "rank3.err")
    os.mkfifo(tmp_path / "rank2.err")
    assert list(logs_of_missing(ranks(3, first=2), [wanted(mine, 3)])) == []


def test_nobody_is_missing_where_all_are_here_or_two_jobs_run(tmp_path: Path) -> None:
    one, two, _ = files(tmp_path, "rank0.err", "rank1.err", "rank2.err")
    assert list(logs_of_missing(ranks(0, 1), [wanted(one, 0), wanted(two, 1)])) == []
    mixed = [*ranks(0, run_id="a", local_world_size=3), *ranks(1, run_id="b", local_world_size=3)]
    assert list(logs_of_missing(mixed, [wanted(one, 0), wanted(two, 1)])) == []
