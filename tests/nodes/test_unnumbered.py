"""Real ranks that do not say which rank they are: found, numbered where that can be, and named when one is stuck."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Answer, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

JOB = Path(__file__).parents[1] / "support" / "nameless_jobs" / "job.py"
MODES = ("spawn",)
WHO = 2
"""The rank that gets stuck: the first one of the second node."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes, on which a job of each sort stands from its first test on."""
    with Cluster(2) as made:
        yield made


def _launch(cluster: Cluster, mode: str) -> None:
    """Start four ranks of one sort, and wait until they hang."""
    common = {
        "HX_CASE": mode, "HX_WHO": str(WHO), "HX_WORLD": "4", "MASTER_ADDR": cluster.nodes[0].address,
        "MASTER_PORT": str(29700 + MODES.index(mode)), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with (cluster.shared / f"{mode}.out").open("ab") as log:
        for index, node in enumerate(cluster.nodes):
            words = [sys.executable, str(JOB), mode, str(2 * index)]
            node.spawn(words, env=common, stdout=log, stderr=log)
    _wait_for(cluster.shared / f"{mode}.out", "struck")


def _wait_for(file: Path, text: str, timeout: float = 120.0) -> None:
    deadline = time.monotonic() + timeout
    while text not in file.read_text():
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.1)


def _ask(cluster: Cluster, mode: str) -> Answer:
    if not (cluster.shared / f"{mode}.out").exists():
        _launch(cluster, mode)
    return Triage(cluster, case=mode).answer()


@pytest.mark.parametrize("mode", MODES)
def test_without_a_number_it_is_named_by_host_and_pid(cluster: Cluster, mode: str) -> None:
    answer = _ask(cluster, mode)
    (stuck,) = [one for one in cluster.nodes[1].processes() if _is_stuck(cluster, one.pid, mode)]
    assert answer.named() == ("hung", "rank_stuck_in_data", [])
    first = answer.findings[0]
    assert first["processes"] == [f"node2:{stuck.pid}"]
    assert first["nodes"] == ["node2"]
    assert f"process {stuck.pid} on node2" in first["summary"]
    assert len(answer.data["job"]["processes_unnumbered"]) == 4, "those that only started them are none"
    assert answer.alarms == ["rank_stuck_in_data"]


def _is_stuck(cluster: Cluster, pid: int, mode: str) -> bool:
    """The one of the processes started by mp.spawn that reads from its pipe."""
    said = cluster.nodes[1].run(["cat", f"/proc/{pid}/cmdline", f"/proc/{pid}/wchan", f"/proc/{pid}/environ"]).stdout
    return "spawn_main" in said and "pipe_read" in said and f"HX_CASE={mode}" in said
