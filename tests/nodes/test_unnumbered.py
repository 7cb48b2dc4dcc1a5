"""Real ranks that do not say which rank they are: found, and named by host and pid when one is stuck."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

JOB = """\
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def read_shard():
    print("struck", flush=True)
    return os.read(os.pipe()[0], 4096)

def spawned(local, first):
    dist.init_process_group("gloo", rank=first + local, world_size=4)
    gradient = torch.ones(1000)
    for step in range(1_000_000):
        if step == 10 and first + local == 2:
            read_shard()
        dist.all_reduce(gradient)

if __name__ == "__main__":
    mp.spawn(spawned, args=(int(sys.argv[1]),), nprocs=2)
"""


def wait_for(file: Path, text: str) -> None:
    deadline = time.monotonic() + 120
    while text not in file.read_text():
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.1)


def stuck(cluster: Cluster) -> int:
    """The one of the second node's processes started by mp.spawn that reads from its pipe."""
    (found,) = (
        process.pid
        for process in cluster.nodes[1].matching("spawn_main")
        if process.environ().get("HX_CASE") == "spawn"
        and "pipe_read" in cluster.nodes[1].run(["cat", f"/proc/{process.pid}/wchan"]).stdout
    )
    return found


def test_without_a_number_it_is_named_by_host_and_pid(nursery: Nurseries) -> None:
    cluster = nursery.cluster
    script, said = cluster.shared / "spawn.py", cluster.shared / "spawn.out"
    script.write_text(JOB)
    env = {"HX_CASE": "spawn", "MASTER_ADDR": cluster.nodes[0].address, "MASTER_PORT": "29700",
           "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}  # fmt: skip
    with said.open("ab") as log:
        started = [
            node.spawn([sys.executable, str(script), str(2 * index)], env=env, stdout=log, stderr=log)
            for index, node in enumerate(cluster.nodes)
        ]
    try:
        wait_for(said, "struck")
        answer, pid = Triage(cluster, case="spawn").answer(), stuck(cluster)
    finally:
        for process in started:
            process.kill()
    assert answer.named() == ("hung", "rank_stuck_in_data", [])
    first = answer.findings[0]
    assert (first["processes"], first["nodes"]) == ([f"node2:{pid}"], ["node2"])
    assert f"process {pid} on node2" in first["summary"]
    assert len(answer.data["job"]["processes_unnumbered"]) == 4, "those that only started them are none"
    assert answer.alarms == ["rank_stuck_in_data"]
