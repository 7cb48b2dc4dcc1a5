"""What breaks under a job: GPUs, ports, nodes. The devices of the nodes are simulated, the cut cables are not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

from collectors.node.processes.sockets import CarriedBytes
from tests.support.devices import PORT, Devices, devices_of
from tests.support.faulty import FaultyJob, Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


@pytest.fixture(scope="module")
def devices(nursery: Nurseries) -> Iterator[Devices]:
    with devices_of(nursery.cluster) as made:
        yield made


@pytest.fixture(scope="module")
def jobs(nursery: Nurseries, devices: Devices) -> Iterator[tuple[FaultyJob, FaultyJob]]:
    """A job that trains, and one whose rank 2 does not come back from its GPU."""
    healthy = nursery.launch("lm.py", "trains")
    stuck = nursery.launch("lm.py", "stuck", env={"HX_FAULT": "nap", "HX_WHO": "2"})
    healthy.wait_for("moves")
    stuck.wait_for("struck", 2)
    yield healthy, stuck
    healthy.end()
    stuck.end()


def test_a_throttled_gpu_and_a_port_that_flaps(
    nursery: Nurseries, devices: Devices, jobs: tuple[FaultyJob, FaultyJob]
) -> None:
    job = jobs[0]
    devices.hold(job)
    devices.benches["node1"].plant("gpu1 throttled")
    asked = Triage(nursery.cluster, case=job.case)
    asked.await_watching(4)
    second = nursery.cluster.node("node2")
    for downs in range(1, 8):  # down for less than a look: whoever judges just then would rightly say that it is down
        devices.port(second, downs=downs)
        time.sleep(1.3)
    answer = asked.answer()
    told = {finding["kind"]: finding for finding in answer.findings}
    assert answer.verdict == "slow", answer.data["summary"]
    assert sorted(answer.alarms) == ["gpu_throttled", "ib_port_errors"]
    assert (told["gpu_throttled"]["gpus"], told["gpu_throttled"]["ranks"]) == (["node1:1"], [1])
    assert told["ib_port_errors"]["ports"] == [f"node2:{PORT}/1"]


def test_a_lost_gpu_is_why_its_rank_is_stuck(
    nursery: Nurseries, devices: Devices, jobs: tuple[FaultyJob, FaultyJob]
) -> None:
    job = jobs[1]
    devices.benches["node1"].plant()
    devices.hold(job)
    devices.benches["node2"].plant("gpu0 lost")  # before it is asked about: a proven hang is told within two seconds
    answer = Triage(nursery.cluster, case=job.case).answer()
    devices.benches["node2"].plant()
    assert answer.named() == ("hung", "gpu_lost", [2]), answer.data["summary"]
    assert answer.findings[0]["gpus"] == ["node2:0"]
    assert answer.alarms in (["gpu_lost"], ["gpu_lost", "rank_stuck_in_code"]), "it sleeps: waited for, or stuck by now"
    assert all(finding["cause"] == "gpu_lost" for finding in answer.findings[1:] if finding["ranks"] == [2])


@pytest.mark.skipif(shutil.which("nft") is None, reason="packets are dropped by nft")
def test_a_path_on_which_nothing_passes_but_ssh_is_named(nursery: Nurseries) -> None:
    job, cut = nursery.launch("lm.py", "blocked"), nursery.cluster.node("node2")
    try:
        job.wait_for("moves")
        chain = "add chain ip hole in { type filter hook input priority 0 ; }"
        passes = [f"add rule ip hole in tcp {end} 22 accept" for end in ("sport", "dport")]
        for words in ("add table ip hole", chain, *passes, "add rule ip hole in meta l4proto tcp drop"):
            cut.run(["nft", words])
        ranks = [job.processes(rank)[0][1].host_pid for rank in range(4)]
        while not any(CarriedBytes(pid).measured().unanswered for pid in ranks):  # three seconds: four times in vain
            time.sleep(0.1)
        answer = Triage(nursery.cluster, case=job.case).answer()
    finally:
        cut.run(["nft", "delete table ip hole"], check=False)
        job.end()
    assert answer.named() == ("hung", "path_blocked", []), answer.data["summary"]
    assert answer.findings[0]["nodes"] == ["node1", "node2"]
    assert all(finding["cause"] for finding in answer.findings[1:] if finding["severity"] == "critical")


@pytest.mark.slow
def test_a_node_cut_off_while_it_is_watched_and_before(
    nursery: Nurseries, devices: Devices, jobs: tuple[FaultyJob, FaultyJob]
) -> None:
    job, cut = jobs[0], nursery.cluster.node("node2")
    watched = Triage(nursery.cluster, "--watch", "15", case=job.case)
    watched.await_watching(4)
    time.sleep(1.5)  # until each rank was looked at
    cut.cut()
    try:
        before, after = Triage(nursery.cluster, case=job.case).answer(), watched.answer()
    finally:
        cut.restore()
    for answer in (before, after):
        assert answer.named() == ("hung", "node_unreachable", [2, 3]), answer.data["summary"]
        assert answer.findings[0]["nodes"] == ["node2"]
        assert {node["name"]: node["state"] for node in answer.data["job"]["nodes"]} == {
            "node1": "live", "node2": "lost",
        }  # fmt: skip
        assert all(node["why"] for node in answer.data["job"]["nodes"] if node["name"] == "node2")
        assert "node2 has not answered for" in answer.data["summary"]
