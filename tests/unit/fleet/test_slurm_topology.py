"""Leaf switches of nodes, by a scontrol of the test's on PATH."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.fleet.targets.slurm_topology import leaf_switches
from collectors.fleet.transport import TransportError

TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-02],LOGIN
SwitchName=leaf2 Nodes=gpu03
SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=gpu[01-03] Switches=leaf[1-2]
SwitchName=broken Nodes=gpu[
SwitchName=huge Nodes=x[1-999999999]
"""


async def test_scontrol_tells_leaf_switches_or_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    async def scontrol(script: str) -> None:
        await asyncio.to_thread(tool.write_text, f"#!/bin/sh\n{script}\n")
        await asyncio.to_thread(tool.chmod, 0o755)

    await scontrol(f"cat <<'E'\n{TREE}E")
    assert await leaf_switches() == {"gpu01": "leaf1", "gpu02": "leaf1", "login": "leaf1", "gpu03": "leaf2"}
    await scontrol("true")
    assert await leaf_switches() == {}
    await scontrol("echo 'slurm_load_topo error: Unable to contact' >&2; exit 1")
    with pytest.raises(TransportError, match="scontrol show topology: slurm_load_topo error: Unable to contact"):
        await leaf_switches()
