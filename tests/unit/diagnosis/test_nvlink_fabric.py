"""What follows from the state of a fabric and its daemons, and when nothing does."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.samples.host import HostSample, Reading
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.series import Timed
from tests.support.jobs import NOW, Sketch, gpu


def service(name: str, state: str, needed: str, said: str) -> Reading:
    return Reading("nvlink", name, {"state": state, "needed": needed, "said": said})


UP = service("nvidia-fabricmanager", "running", "/dev/nvidia-nvswitch0", "process 7")
DOWN = service("nvidia-fabricmanager", "down", "/dev/nvidia-nvswitch0", "systemctl: failed")
IMEX = service("nvidia-imex", "down", "/dev/nvidia-caps-imex-channels/channel0", "nvidia-imex-ctl: WAITING_FOR_PEERS")


def told(
    state: str, status: str, health: str = "N/A", *, ago: float = 120.0, services: Iterable[Reading] = (UP,),
    booted: float = 300.0,
) -> list[Finding]:  # fmt: skip
    job = Sketch(world=2, nodes=1)
    joined = {"state": state, "status": status, "health": health}
    gpus = (Reading("nvlink", f"GPU {index}", {"gpu": index, **joined}) for index in range(2))
    readings = tuple(Timed(NOW - ago, reading) for reading in (*gpus, *services))
    job.node(
        "node1", gpus=(gpu(0, pids=[1000]), gpu(1, pids=[1001])), readings=readings,
        host=HostSample(8, 1 << 40, NOW - booted, {}, 1.0, 1 << 39, None),
    )  # fmt: skip
    return [finding for finding in job.verdict().findings if finding.kind == "nvlink_fabric_down"]


def test_a_fabric_that_is_joined_and_served_is_no_finding() -> None:
    assert told("Completed", "Success") == told("Completed", "Success", "Healthy") == told("N/A", "N/A") == []


def test_gpus_that_wait_for_a_manager_that_failed() -> None:
    (found,) = told("In Progress", "N/A", services=[DOWN])
    assert (found.severity, found.ranks, found.gpus) == ("critical", (0, 1), ("node1:0", "node1:1"))
    assert found.summary == (
        "node1: GPUs 0-1 are not well in the NVLink fabric: In Progress, status N/A, health N/A, and "
        "nvidia-fabricmanager is down (systemctl: failed) where /dev/nvidia-nvswitch0 needs it"
    )
    assert found.certainty == "proven"
    assert "systemctl restart nvidia-fabricmanager" in found.advice


def test_one_that_trains_its_links_is_given_time() -> None:
    assert told("In Progress", "N/A", ago=5.0) == []
    assert told("In Progress", "N/A", ago=90.0) != []


def test_a_daemon_that_is_down_where_devices_need_it() -> None:
    (found,) = told("Completed", "Success", services=[DOWN])
    assert found.severity == "warning"
    assert found.summary.startswith(
        "node1: nvidia-fabricmanager is down (systemctl: failed) where /dev/nvidia-nvswitch0"
    )
    (found,) = told("Completed", "Success", services=[UP, IMEX])
    assert "nvidia-imex is down (nvidia-imex-ctl: WAITING_FOR_PEERS)" in found.summary
