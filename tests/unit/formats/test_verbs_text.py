"""Ports as ibv_devinfo, ibstatus, ibdev2netdev and ibportstate print them, also copied from a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.formats import verbs_text
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from hangtop.session.folder.documents import copied

DEVINFO = (
    "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t20.31.1014\n\tphys_port_cnt:\t\t\t1\n"
    "\t\tport:\t1\n\t\t\tstate:\t\t\t{} ({})\n"
    "\t\t\tsm_lid:\t\t\t3\n\t\t\tport_lid:\t\t7\n\t\t\tlink_layer:\t\tInfiniBand\n"
)
STATUS = (
    "Infiniband device 'mlx5_0' port 1 status:\n\tbase lid:\t 0x7\n\tstate:\t\t {}\n\tphys state:\t {}\n"
    "\trate:\t\t 100 Gb/sec (4X EDR)\n"
)
PORTSTATE = (
    "# Port info: Lid 7 port 28\nLinkState:.......................{}\n"
    "PhysLinkState:...................{}\nSMLid:.......3\n"
)


def test_ibv_devinfo() -> None:
    (port,) = verbs_text.parse(DEVINFO.format("PORT_ACTIVE", 4))
    assert (port.device, port.port, port.state, port.phys_state) == ("mlx5_0", 1, "ACTIVE", "")
    assert (port.link_layer, port.sm_lid, port.lid, port.firmware) == ("InfiniBand", 3, 7, "20.31.1014")


def test_ibstatus() -> None:
    (port,) = verbs_text.parse(STATUS.format("4: ACTIVE", "5: LinkUp"))
    assert (port.state, port.phys_state, port.rate, port.lid) == ("ACTIVE", "LinkUp", 100.0, 7)


def test_ibdev2netdev_and_ibportstate() -> None:
    up, down = verbs_text.parse("mlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ib1 (Down)\n")
    assert (up.state, up.netdev, down.state, down.netdev) == ("ACTIVE", "ib0", "DOWN", "ib1")
    (port,) = verbs_text.parse(PORTSTATE.format("Initialize", "LinkUp"))
    assert (port.device, port.port, port.state, port.phys_state, port.sm_lid) == ("lid7", 28, "INIT", "LinkUp", 3)


@pytest.mark.parametrize("text", ["", "mlx5_0: link up\n", "state: 4: ACTIVE\n", "hca_id is unknown\n"])
def test_what_is_none_of_them(text: str) -> None:
    assert not verbs_text.looks_like(text)
    assert verbs_text.parse(text) == []


DOWN = [
    DEVINFO.format("PORT_DOWN", 1),
    STATUS.format("1: DOWN", "3: Disabled"),
    "mlx5_0 port 1 ==> ib0 (Down)\nmlx5_1 port 1 ==> ib1 (Up)\n",
    PORTSTATE.format("Down", "Polling"),
]


@pytest.mark.parametrize("text", DOWN)
def test_a_port_that_is_down(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out.txt"
    path.write_text("[root@n7 ~]# some tool\n" + text)
    (found,) = diagnose(files_session([path]).job()).findings
    assert (found.kind, found.nodes) == ("ib_port_down", ("n7",))


@pytest.mark.parametrize(
    "text", [DEVINFO.format("PORT_ACTIVE", 4), STATUS.format("4: ACTIVE", "5: LinkUp"), "mlx5_0 port 1 ==> ib0 (Up)\n"]
)
def test_a_port_that_is_up(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out.txt"
    path.write_text("$ tool\n" + text)
    assert diagnose(files_session([path]).job()).findings == ()


def test_prompts() -> None:
    assert copied("```\nroot@n7:~# nvidia-smi\nx\n") == ("x\n", "n7")
    assert copied("(env) [me@login-1 dir]$ rdma link\nx") == ("x", "login-1")
    assert copied("# Port info: Lid 7 port 28\nx").text.startswith("# Port")
    assert copied("step 1\nstep 2\n") == ("step 1\nstep 2\n", "")
