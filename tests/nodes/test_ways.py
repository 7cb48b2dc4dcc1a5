"""One hung job on eight nodes, asked about by every way in: each gives the same answer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faulty import FaultyJob, Nurseries, Triage, nurseries
from tests.support.slurm_cluster import SlurmCluster, missing_slurm

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

NODES = 8
CULPRIT = 5
WAYS = {
    "asyncssh": "",
    "ssh": "--via ssh",
    "slurm": "--via slurm --slurm {job}",
    "kubectl": "--via kubectl",
    "docker": "--via 'docker exec -i %h sh'",
}


@pytest.fixture(scope="module")
def eight() -> Iterator[Nurseries]:
    with nurseries(NODES) as made:
        yield made


@pytest.fixture(scope="module")
def hung(eight: Nurseries) -> Iterator[FaultyJob]:
    """A rank a node; rank 5 reads a file that gives nothing."""
    job = eight.launch("lm.py", "ways", ranks_per_node=1, env={"HX_FAULT": "reader", "HX_WHO": str(CULPRIT)})
    job.wait_for("struck", CULPRIT)
    yield job
    job.end()


@pytest.fixture(scope="module")
def allocation(eight: Nurseries) -> Iterator[tuple[str, dict[str, str]]]:
    """A job of a real Slurm that holds all nodes, and the environment in which its commands work."""
    if reason := missing_slurm():
        pytest.skip(reason)
    with SlurmCluster(eight.cluster) as slurm:
        number = slurm.submit(f"--nodes={NODES}", "--output=/dev/null", command="srun sleep 900", nodes=NODES)
        yield number, slurm.env
        slurm.cancel(number)


def stand_in(eight: Nurseries, folder: Path, name: str) -> None:
    """A program called as ``kubectl exec`` or ``docker exec`` is, which gives a shell in a node's namespaces."""
    cases = "".join(f"{node.name}) exec {shlex.join(node.enter(['sh']))};;\n" for node in eight.cluster.nodes)
    script = folder / name
    script.write_text(f'#!/bin/sh\n[ "$1 $2" = "exec -i" ] || exit 2\ncase $3 in\n{cases}*) exit 4;;\nesac\n')
    script.chmod(0o755)


@pytest.mark.parametrize("way", WAYS)
def test_the_answer_is_the_same_by_every_way(
    eight: Nurseries, hung: FaultyJob, way: str, request: pytest.FixtureRequest, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    job = ""
    if way == "slurm":
        job, environment = request.getfixturevalue("allocation")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
    if way in ("kubectl", "docker"):
        stand_in(eight, tmp_path, way)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = shlex.split(WAYS[way].format(job=job))
    answer = Triage(eight.cluster, *words, case=hung.case).answer()
    assert (answer.status, answer.named()) == (1, ("hung", "rank_stuck_in_data", [CULPRIT])), answer.errors
    assert any("token_pages" in piece["text"] for piece in answer.findings[0]["evidence"])
    assert [(node["name"], node["state"], node["ranks"]) for node in answer.data["job"]["nodes"]] == [
        (f"node{number + 1}", "live", [number]) for number in range(NODES)
    ]
