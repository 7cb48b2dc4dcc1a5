"""Where topology.conf of a node says that it hangs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from collectors.node.network.located import LocationSource
from collectors.node.shared import Shared
from collectors.node.source import Absent
from collectors.samples.location import Location
from tests.support.made import process


def conf(root: Path, folder: str, text: str) -> None:
    path = root / folder.lstrip("/") / "topology.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def look(root: Path, **env: str) -> list[object]:
    shared = Shared()
    shared.ranks = (process(0, env=env),)
    return list(LocationSource(shared, root=str(root)).look(0.0))


def test_this_node_by_its_hostname_or_by_slurm_s_own_name(tmp_path: Path) -> None:
    host = socket.gethostname().partition(".")[0]
    conf(tmp_path, "/etc/slurm", f"SwitchName=s1 Nodes={host},cn-7\nSwitchName=s2 Nodes=cn-8\n")
    assert look(tmp_path) == [Location("leaf", "s1", "topology.conf")]
    assert look(tmp_path, SLURMD_NODENAME="cn-8") == [Location("leaf", "s2", "topology.conf")]


def test_the_job_s_own_slurm_comes_first(tmp_path: Path) -> None:
    conf(tmp_path, "/etc/slurm", "SwitchName=old Nodes=cn-8\n")
    conf(tmp_path, "/opt/site/slurm", "BlockName=b3 Nodes=cn-[7-8]\n")
    found = look(tmp_path, SLURMD_NODENAME="cn-8", SLURM_CONF="/opt/site/slurm/slurm.conf")
    assert found == [Location("block", "b3", "topology.conf")]


def test_no_file_or_one_that_does_not_know_this_node(tmp_path: Path) -> None:
    with pytest.raises(Absent):
        look(tmp_path)
    conf(tmp_path, "/etc/slurm", "SwitchName=s1 Nodes=elsewhere\n")
    with pytest.raises(Absent):
        look(tmp_path)
