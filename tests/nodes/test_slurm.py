"""A real Slurm, sshd switched off: hangtop goes in by steps of the job, and leaves none behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries, nurseries
from tests.support.reached import HANGTOP, Reached
from tests.support.slurm_cluster import SlurmCluster, missing_slurm

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def own() -> Iterator[Nurseries]:
    """Nodes whose sshd is off."""
    if reason := missing_slurm():
        pytest.skip(reason)
    with nurseries() as made:
        for node in made.cluster.nodes:
            node.stop_sshd()
        yield made


@pytest.fixture(scope="module")
def cluster(own: Nurseries) -> Cluster:
    return own.cluster


@pytest.fixture(scope="module")
def slurm(cluster: Cluster) -> Iterator[SlurmCluster]:
    with SlurmCluster(cluster) as made:
        yield made


@pytest.fixture
def job(slurm: SlurmCluster) -> Iterator[str]:
    """A job on both nodes that waits."""
    job = slurm.submit("--nodes=2", f"--output={slurm.folder}/job-%j-%t.log", command="srun sleep 600", nodes=2)
    yield job
    slurm.cancel(job)


def steps(slurm: SlurmCluster) -> list[str]:
    """Steps that are hangtop's: those that run a shell."""
    rows = slurm.ask(["squeue", "--noheader", "--steps", "--format", "%i|%j"]).splitlines()
    return [row for row in rows if row.strip().endswith(("|env", "|sh"))]


def agents(cluster: Cluster) -> list[str]:
    return [process.command[:80] for node in cluster.nodes for process in node.matching(" hangtop ")]


def test_a_hang_is_found_by_steps_of_the_job(own: Nurseries, slurm: SlurmCluster, job: str) -> None:
    hung = own.launch("lm.py", "by-steps", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    # options that users set, and those that an allocation sets for whoever sits in it
    set_by_others = {
        "SLURM_LABELIO": "1", "SLURM_UNBUFFEREDIO": "1", "SLURM_STDOUTMODE": f"{own.cluster.root}/elsewhere",
        "SLURM_NTASKS_PER_NODE": "8", "SLURM_NTASKS": "16", "SLURM_MEM_PER_CPU": "64", "SLURM_MEM_PER_NODE": "99",
        "SQUEUE_USERS": "nobody",
    }  # fmt: skip
    env = {**slurm.env, **set_by_others, "XDG_STATE_HOME": str(own.cluster.root / "state")}
    try:
        hung.wait_for("struck", 2)
        by_steps = Reached(["--via", "slurm", "--slurm", job], hung.case, env)
        by_steps.stuck_rank_is_found(2)
    finally:
        hung.end()
    assert not agents(own.cluster)


def test_nothing_is_left_after_kill_9(cluster: Cluster, slurm: SlurmCluster, job: str) -> None:
    words = [*HANGTOP, "triage", "--watch", "120", "--via", "slurm", "--slurm", job, "--batch"]
    client = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **slurm.env}
    )
    try:
        deadline = time.monotonic() + 20
        while len(agents(cluster)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert len(steps(slurm)) >= 2
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
    deadline = time.monotonic() + 10.5
    while left := [*agents(cluster), *steps(slurm)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def live(slurm: SlurmCluster, job: str) -> set[str]:
    """Nodes that hangtop reaches by steps of a job."""
    words = [*HANGTOP, "triage", "--watch", "1", "--json", "--via", "slurm", "--slurm", job, "--batch"]
    env = {**os.environ, **slurm.env}
    done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False, env=env)
    assert done.stdout, done.stderr
    nodes = json.loads(done.stdout)["job"]["nodes"]
    assert all(node["state"] == "live" for node in nodes), nodes
    return {node["name"] for node in nodes}
