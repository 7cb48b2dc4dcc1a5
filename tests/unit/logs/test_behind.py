"""Behind a pipe: whoever reads it by whatever descriptor, what he hands on, and the logs of container runtimes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collectors.node.logs.following.pipe_readers import SEARCH, Pipes

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
        assert Pipes().files(os.getpid(), pipe_of(write), "", 0.0) == [str(tmp_path / "slurm-7.out")]
    os.close(write)


def test_what_is_handed_on_through_a_fifo_is_followed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDWR)  # else both ends wait for one another to open it
    read, write = os.pipe()
    with carrier("conmon", held, tmp_path / "0.log"), carrier("containerd-shim", read, fifo):
        os.close(read)
        os.close(held)
        assert Pipes().files(os.getpid(), pipe_of(write), "", 0.0) == [str(tmp_path / "0.log")]
    os.close(write)


def test_others_who_hold_the_pipe_are_no_readers(tmp_path: Path) -> None:
    """Ranks that write to one pipe, and programs that carry nobody's output, lead to no file of theirs."""
    read, write = os.pipe()
    with carrier("game", read, tmp_path / "score"), carrier("tee", write, tmp_path / "other"):
        pipes = Pipes()
        assert pipes.files(1, pipe_of(write), "", 0.0) == []
        assert pipes.files(1, pipe_of(write), "", SEARCH / 2) == []
    os.close(read)
    os.close(write)


def test_an_ancestor_that_reads_is_found_whatever_its_name(tmp_path: Path) -> None:
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as rank, (tmp_path / "launcher.log").open("w"):
        assert Pipes().files(rank.pid, pipe_of(write), "", 0.0), "pytest, the parent, holds the end that reads"
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
    pipes = Pipes(root=str(tmp_path))
    found = pipes.files(os.getpid(), "pipe:[1]", name, 0.0)
    assert found == [str(docker / f"{name}-json.log"), str(kubelet / f"rank-0_train_main-{name}.log")]
    assert pipes.files(os.getpid(), "pipe:[1]", "job_17/step_0", 0.0) == []
    assert pipes.files(os.getpid(), "pipe:[1]", "*" * 64, 0.0) == []
