"""Real jobs of Ray whose workers have no RANK: the verdict names the process."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.reached import BY_A_SHELL, Reached

JOB = Path(__file__).parents[1] / "support" / "nameless_jobs" / "ray_job.py"
WORLD, WHO = 3, 1
START_S = 150.0
"""For Ray, its workers and their torch to start on a machine with little room."""

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(
        not importlib.util.find_spec("ray"),
        reason="no Ray here: pip install 'ray[default,train]'",
    ),
]


@contextmanager
def _running(folder: Path, mode: str) -> Iterator[dict[int, int]]:
    """A job until it is stuck; gives the rank of each process as the job knows it."""
    own = tempfile.TemporaryDirectory(prefix="hx-ray-", ignore_cleanup_errors=True)
    env = {
        **os.environ, "HX_CASE": str(folder), "HX_FOLDER": str(folder), "HX_RAY": own.name, "OMP_NUM_THREADS": "1",
        "HX_WHO": str(WHO), "HX_WORLD": str(WORLD),
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1",
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-this-test-alone",
    }  # fmt: skip
    with (folder / "job.out").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, str(JOB), mode], env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while not (folder / "struck").exists() or len(list(folder.glob("rank.*"))) < WORLD:
            assert job.poll() is None, (folder / "job.out").read_text()
            assert time.monotonic() < deadline, (folder / "job.out").read_text()
            time.sleep(0.2)
        yield {int(file.read_text()): int(file.suffix[1:]) for file in folder.glob("rank.*")}
    finally:
        job.send_signal(signal.SIGTERM)  # Ray takes down what it has started
        try:
            job.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        own.cleanup()


def test_actors_of_whom_ray_tells_no_number_are_named_by_host_and_pid(tmp_path: Path) -> None:
    with _running(tmp_path, "plain") as ranks:
        answer = Reached([*BY_A_SHELL, "--watch", "5"], str(tmp_path)).triage()
        (stuck,) = [pid for pid, rank in ranks.items() if rank == WHO]
    assert answer["verdict"] in ("hung", "waiting"), "it sleeps: waited for, and stuck after a minute"
    assert (answer["findings"][0]["ranks"], answer["findings"][0]["processes"]) == ([], [f"here:{stuck}"])
