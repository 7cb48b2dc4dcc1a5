"""Where nodes hang, as Slurm and ibnetdiscover write it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import ibnetdiscover
from collectors.formats.floor_plan import of_slurm
from collectors.samples.location import Location

CONF = """\
# the fabric of hall 2
SwitchName=leaf1 Nodes=gpu[001-003],login1  # a comment
switchname=leaf2 nodes=gpu[004-005,009]
SwitchName=spine1 Switches=leaf[1-2]
SwitchName=core Switches=spine1 LinkSpeed=400
"""
SCONTROL = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[001-003],login1
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu[004-005,009]
SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=gpu[001-005,009],login1 Switches=leaf[1-2]
SwitchName=core Level=2 LinkSpeed=400 Nodes=gpu[001-005,009],login1 Switches=spine1
"""
BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=node[1-2] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=node[3-4] BlockSize=2
BlockSizes=2
"""
FABRIC = """\
#
# Topology file: generated on Tue Sep 15 12:00:00 2026
#
vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb8599f0300fb1234
switchguid=0xb8599f0300fb1234(b8599f0300fb1234)
Switch\t41 "S-b8599f0300fb1234"\t\t# "MF0;leaf01:MQM8700/U1" enhanced port 0 lid 5 lmc 0
[1]\t"H-0c42a10300abcdef"[1](c42a10300abcdef) \t\t# "gpu1 mlx5_0" lid 12 4xHDR
[2]\t"H-0c42a10300abcde0"[1](c42a10300abcde0) \t\t# "GPU2 mlx5_0" lid 13 4xHDR
[21]\t"S-b8599f0300fbffff"[3]\t\t# "MF0;spine01:MQM8700/U1" lid 3 4xHDR

vendid=0x2c9
Switch\t41 "S-b8599f0300fb5678"\t\t# "MF0;leaf02:MQM8700/U1" enhanced port 0 lid 6 lmc 0
[1]\t"H-0c42a10300abcdf0"[1](c42a10300abcdf0) \t\t# "gpu1 mlx5_1" lid 22 4xHDR
[9]\t"H-0c42a10300abaaaa"[1](c42a10300abaaaa) \t\t# "MT4129 ConnectX7   Mellanox Technologies" lid 99 4xHDR

vendid=0x2c9
caguid=0xc42a10300abcdef
Ca\t1 "H-0c42a10300abcdef"\t\t# "gpu1 mlx5_0"
[1](c42a10300abcdef) \t"S-b8599f0300fb1234"[1]\t\t# lid 12 lmc 0 "MF0;leaf01:MQM8700/U1" lid 5 4xHDR
"""


def test_a_tree_of_slurm_is_the_same_from_its_file_and_from_scontrol() -> None:
    from_file, from_scontrol = of_slurm(CONF, "scontrol"), of_slurm(SCONTROL, "scontrol")
    assert from_file == from_scontrol
    assert from_file.of(["gpu002.cluster.example"], []) == (
        Location("leaf", "leaf1", "scontrol"),
        Location("spine", "spine1", "scontrol"),
        Location("core", "core", "scontrol"),
    )
    assert from_file.of(["GPU009"], [])[0].name == "leaf2"
    assert from_file.of(["gpu006"], []) == ()


def test_blocks_of_slurm() -> None:
    plan = of_slurm(BLOCKS, "topology.conf")
    assert plan.of(["node3"], []) == (Location("block", "b2", "topology.conf"),)


def test_switches_that_hold_each_other_end() -> None:
    loop = "SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b\n"
    assert [place.name for place in of_slurm(loop, "x").of(["n1"], [])] == ["a", "b", "c"]


def test_a_set_of_a_billion_does_not_fill_the_memory() -> None:
    assert len(of_slurm("SwitchName=a Nodes=n[1-999999999]\n", "x").by_name) == 200_000


def test_rails_of_a_node_by_its_name_and_by_the_lids_of_its_ports() -> None:
    plan = ibnetdiscover.read(FABRIC)
    rails = (
        Location("leaf", "leaf01", "ibnetdiscover", "mlx5_0"),
        Location("leaf", "leaf02", "ibnetdiscover", "mlx5_1"),
    )
    assert plan.of(["gpu1"], []) == rails
    assert plan.of(["renamed"], [("mlx5_0", 12), ("mlx5_1", 22), ("mlx5_2", 7)]) == rails
    assert plan.of(["gpu2"], [])[0].name == "leaf01"
    assert plan.of(["renamed"], [("mlx5_9", 99)]) == (Location("leaf", "leaf02", "ibnetdiscover", "mlx5_9"),)
    assert "mt4129" not in plan.by_name


@given(st.text(max_size=200), st.text(max_size=40))
def test_any_text_is_read(text: str, name: str) -> None:
    for line in (text, f'Switch 1 "S-1" # "{text}"\n[1] "H-2"[1](2) # "{text}" lid 1 4xHDR', f"SwitchName={text}"):
        for plan in (of_slurm(line, "x"), ibnetdiscover.read(line)):
            assert all(place.name and place.source for place in plan.of([name], [("d", 1)]))
            assert set(plan.by_name) == {known.lower() for known in plan.by_name}
