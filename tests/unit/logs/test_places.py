"""Where logs lie that ranks write into pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collectors.node.logs.following.places import files_behind

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
        assert files_behind(pipe_of(write), "") == [str(tmp_path / "slurm-7.out")]
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
    found = files_behind("pipe:[1]", name, root=root)
    assert found == [str(docker / f"{name}-json.log"), str(kubelet / f"rank-0_train_main-{name}.log")]
    assert files_behind("pipe:[1]", "job_17/step_0", root=root) == []
    assert files_behind("pipe:[1]", "*" * 64, root=root) == []
