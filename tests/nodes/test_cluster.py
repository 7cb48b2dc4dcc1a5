"""The test cluster itself: nodes are apart, reachable as hangtop reaches them, and gone afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import REPOSITORY, Cluster

pytestmark = pytest.mark.nodes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as made:
        yield made


def ssh(cluster: Cluster, name: str, command: str) -> subprocess.CompletedProcess[str]:
    words = ["ssh", "-F", str(cluster.ssh_config), "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", name, command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)


def test_nodes_are_machines_of_their_own(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    (first.infiniband / "mlx5_0").mkdir()
    first.tool("nvidia-smi", "#!/bin/sh\necho simulated\n")
    (first.tmp / "mine").write_text("x")

    seen = ssh(cluster, "node1", "hostname; nvidia-smi; ls /sys/class/infiniband /tmp; ls /sys/class/net; echo $$")
    assert seen.stdout.split()[:2] == ["node1", "simulated"], seen.stderr
    assert {"mlx5_0", "mine", "eth0", "lo"} <= set(seen.stdout.split())
    assert int(seen.stdout.split()[-1]) < 1000, "a PID namespace of its own"

    other = ssh(cluster, "node2", "hostname; command -v nvidia-smi; ls /sys/class/infiniband /tmp; getent hosts node1")
    assert "mlx5_0" not in other.stdout
    assert "mine" not in other.stdout
    assert first.address in other.stdout
    boots = {node.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout for node in cluster.nodes}
    assert len(boots) == 2


def test_cable_and_sshd_can_be_taken_away(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    node.cut()
    assert ssh(cluster, "node2", "true").returncode == 255
    node.restore()
    node.stop_sshd()
    assert "refused" in ssh(cluster, "node2", "true").stderr
    node.start_sshd()
    assert ssh(cluster, "node2", "true").returncode == 0


def test_ranks_find_one_another_and_can_be_signalled(cluster: Cluster) -> None:
    script = (
        "import os, socket, time\nprint('rank', os.environ['RANK'], socket.gethostname(), flush=True)\ntime.sleep(60)\n"
    )
    ranks = cluster.launch(script, ranks_per_node=2, env={"JOB": "a"}, per_rank={3: {"ODD": "1"}})
    ranks.wait_for("rank")
    assert "rank 3 node2" in ranks[3].stdout.read_text()
    (process,) = [p for p in cluster.nodes[1].processes() if p.pid == ranks[3].pid]
    assert process.environ()["MASTER_ADDR"] == cluster.nodes[0].address
    assert process.environ()["ODD"] == "1"
    ranks[3].signal(signal.SIGKILL)
    assert ranks[3].process.wait(5) != 0
    assert ranks[0].process.poll() is None
    ranks.kill()
    assert not cluster.nodes[0].matching("train.py")


def test_nothing_is_left_when_the_run_is_killed() -> None:
    program = (
        "import time\nfrom tests.support.cluster import Cluster\n"
        "with Cluster(1) as c:\n    c.nodes[0].spawn(['sleep', '600'])\n"
        "    print(c.root, c.bridge, c.nodes[0].init_pid, flush=True)\n    time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert run.stdout is not None
    root, bridge, init = run.stdout.readline().split()
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{init}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{init}").exists()
    with Cluster(1):  # a later run cleans up
        pass
    if Path("/sys/class/net", bridge).exists():
        pytest.skip("another run took the network")
    assert not Path(root).exists()
