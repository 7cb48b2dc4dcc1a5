"""A real Slurm, sshd switched off: hangtop goes in by steps of the job, and leaves none behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries, nurseries
from tests.support.slurm_cluster import SlurmCluster, missing_slurm

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")


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
    reach = ["--via", "slurm", "--slurm", job, "--batch", "--job", f"HX_CASE={hung.case}"]

    def ask(*command: str) -> str:
        done = subprocess.run(
            [*HANGTOP, *command, *reach], capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, **env},
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.stdout

    try:
        hung.wait_for("struck", 2)
        answer = json.loads(ask("triage", "--json"))
        assert answer["verdict"] == "hung", answer
        assert (answer["findings"][0]["kind"], answer["findings"][0]["ranks"]) == ("rank_stuck_in_data", [2])
        assert {node["state"] for node in answer["job"]["nodes"]} == {"live"}
        assert "lm.py" in ask("stacks")
        assert json.loads(ask("probe", "path", "--seconds", "0.2", "--yes", "--json"))["verdict"] == "ok"
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
