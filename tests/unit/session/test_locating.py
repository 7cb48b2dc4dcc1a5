"""What witnesses say of places reaches the nodes, and no node comes alive by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.fleet.sink import LinkChange
from collectors.fleet.targets.chosen import TargetError
from collectors.formats.slurm_topology import read
from collectors.samples.location import Location
from hangtop.session.live import read_topology
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello, tick

PLAN = read("SwitchName=leaf1 Nodes=gpu[1-2]\nSwitchName=leaf2 Nodes=gpu3\n", "scontrol")


def made(clock: Callable[[], float] = lambda: 1000.0) -> Session:
    session = Session(SessionOptions(), clock=clock)
    session.link(LinkChange("root@gpu1", "connecting", "", 1000.0))
    session.link(LinkChange("alias", "connecting", "", 1000.0))
    return session


def leaves(session: Session) -> dict[str, list[str]]:
    return {name: [place.name for place in node.locations.values()] for name, node in session.state.nodes.items()}


def test_nodes_are_found_by_the_user_s_name_and_by_their_own() -> None:
    session = made()
    session.located(PLAN)
    session.tick()
    assert leaves(session) == {"root@gpu1": ["leaf1"], "alias": []}
    assert session.state.nodes["root@gpu1"].seen_at is None  # nothing came from it
    session.samples("alias", [hello(1000.0, hostname="gpu3.cluster"), tick(1000.0)], 10)
    session.tick()
    assert leaves(session)["alias"] == ["leaf2"]
    assert session.job().nodes["alias"].locations == (Location("leaf", "leaf2", "scontrol"),)


def test_a_file_of_slurms_and_one_of_none(tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=leaf1 Nodes=gpu[1-2]\n")
    assert read_topology(path).of(["gpu1"]) == (Location("leaf", "leaf1", "topology.conf"),)
    path.write_text("nothing of the kind\n")
    with pytest.raises(TargetError, match=r"neither a topology\.conf"):
        read_topology(path)
    with pytest.raises(TargetError, match="cannot be read"):
        read_topology(tmp_path / "absent")
