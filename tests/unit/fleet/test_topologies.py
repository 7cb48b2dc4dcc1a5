"""Locations of nodes: by a scontrol of the test's on PATH, and by the Kubernetes nodes of pods."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.fleet.targets import pod_topology, slurm_topology
from collectors.formats.slurm_topology import NodeLocations, read
from collectors.samples.location import Location

TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-02],login
SwitchName=leaf2 Nodes=gpu03
SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=gpu[01-03] Switches=leaf[1-2]
SwitchName=spine2 Switches=spine1
BlockName=b1 Nodes=gpu[01-02]  # of a later plugin
SwitchName=broken Nodes=gpu[
SwitchName=huge Nodes=x[1-999999999]
"""


def test_a_tree_and_blocks_of_slurm() -> None:
    found = read(TREE, "topology.conf")
    above = (Location("spine", "spine1", "topology.conf"), Location("core", "spine2", "topology.conf"))
    block = Location("block", "b1", "topology.conf")
    assert found.of(["GPU02.cluster"]) == (Location("leaf", "leaf1", "topology.conf"), *above, block)
    assert found.of(["other", "gpu03"]) == (Location("leaf", "leaf2", "topology.conf"), *above)
    assert found.of(["x7"]) == ()
    assert read("no topology", "x") == NodeLocations()


async def test_scontrol_knows_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scontrol(script: str) -> NodeLocations:
        tool = tmp_path / "scontrol"
        await asyncio.to_thread(tool.write_text, f"#!/bin/sh\n{script}\n")
        await asyncio.to_thread(tool.chmod, 0o755)
        return await slurm_topology.ask()

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    known = await scontrol("echo 'SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[1-2]'")
    assert (known.of(["gpu2"]), known.why) == ((Location("leaf", "leaf1", "scontrol"),), "")
    refused = await scontrol("echo 'slurm_load_topo error: Unable to contact' >&2; exit 1")
    assert refused.why == "scontrol show topology: slurm_load_topo error: Unable to contact"
    assert await scontrol("true") == NodeLocations()


async def test_a_pod_that_was_made_anew_elsewhere_is_told_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_topology, "EVERY", 0.01)
    hosts, told = {"train-0": "host-a"}, list[Location]()
    asking = asyncio.create_task(
        pod_topology.keep_telling(lambda: dict(hosts), lambda known: told.extend(known.of(["train-0"])))
    )
    async with asyncio.timeout(60):
        while not told:  # noqa: ASYNC110 - another task's doing
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        hosts["train-0"] = "host-b"
        while len(told) < 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])
    assert told == [Location("host", host, "kubectl") for host in ("host-a", "host-b")]
