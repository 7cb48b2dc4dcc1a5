"""Where pods hang: the labels of the Kubernetes nodes that they run on.

Labels are those of Kubernetes itself, of NVIDIA's GPU operator and Topograph (up to 1.1), and of the clouds, each by
its own documentation: AWS numbers its network layers from the top, Oracle has blocks in islands, Google blocks in
blocks.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from collectors.fleet.clean import clean, clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError
from collectors.formats.floor_plan import FloorPlan
from collectors.samples.location import HOST, LEVELS, Location

SOURCE = "kubectl"
LABELS: tuple[tuple[str, str], ...] = (
    ("nvidia.com/gpu.clique", "NVLink domain"),
    ("accelerator.topograph.run/domain", "NVLink domain"),
    ("network.topology.nvidia.com/accelerator", "NVLink domain"),
    ("ds.coreweave.com/nvlink.domain", "NVLink domain"),
    ("fabric.topograph.run/tier-0", "leaf"),
    ("network.topology.nvidia.com/tier-0", "leaf"),
    ("network.topology.nvidia.com/leaf", "leaf"),
    ("network.topology.nvidia.com/block", "leaf"),  # as Topograph 0.1 called it
    ("backend.coreweave.cloud/leafgroup", "leaf"),
    ("oci.oraclecloud.com/rdma.local_block_id", "leaf"),
    ("cloud.google.com/gce-topology-subblock", "rack"),
    ("oci.oraclecloud.com/host.rack_id", "rack"),
    ("cloud.google.com/gce-topology-block", "block"),
    ("oci.oraclecloud.com/rdma.network_block_id", "block"),
    ("backend.coreweave.cloud/superpod", "block"),
    ("fabric.topograph.run/tier-1", "spine"),
    ("network.topology.nvidia.com/tier-1", "spine"),
    ("network.topology.nvidia.com/spine", "spine"),
    ("fabric.topograph.run/tier-2", "core"),
    ("network.topology.nvidia.com/tier-2", "core"),
    ("network.topology.nvidia.com/core", "core"),
    ("network.topology.nvidia.com/datacenter", "core"),
    ("oci.oraclecloud.com/rdma.hpc_island_id", "core"),
    ("backend.coreweave.cloud/fabric", "core"),
    ("topology.kubernetes.io/zone", "zone"),
)
"""Label → level; of two for one level the first counts."""
_AWS_LAYER = re.compile(r"topology\.k8s\.aws/network-node-layer-([1-9])\Z")
EVERY = 15.0
"""Seconds between two looks at whether a pod was made anew on another node; those ask nobody."""
_DEADLINE = 20.0
_LIMIT = 64 << 20
_TEXT = 100


async def keep_asking(hosts: Callable[[], Mapping[str, str]], tell: Callable[[FloorPlan], None]) -> None:
    """Ask now, and for ever again when a pod has come to run elsewhere; ``hosts`` is :attr:`Kubectl.hosts`."""
    asked: Mapping[str, str] = {}
    while True:
        now = hosts()
        if now and now != asked:
            asked = now
            tell(await ask(now))
        await asyncio.sleep(EVERY)


async def ask(hosts: Mapping[str, str]) -> FloorPlan:
    """Locations by pod, of their Kubernetes nodes. Runs ``kubectl get nodes`` once, for these alone."""
    alone = {pod.lower(): (Location(HOST, host, SOURCE),) for pod, host in hosts.items()}
    words = ["kubectl", "get", "nodes", "--output=json", "--ignore-not-found", *sorted(set(hosts.values()))]
    try:
        done = await Local("kubectl").run(words, timeout=_DEADLINE, limit=_LIMIT)
    except TransportError as error:
        return FloorPlan(alone, why=str(error))
    if done.status != 0:
        said = clean_bytes(done.stderr).strip().splitlines()
        return FloorPlan(alone, why=f"kubectl get nodes: {said[-1] if said else f'status {done.status}'}")
    nodes = read_nodes(done.stdout.decode("utf-8", "replace"))
    found = {pod.lower(): (*alone[pod.lower()], *nodes.get(host, ())) for pod, host in hosts.items()}
    return FloorPlan(found)


def read_nodes(text: str) -> dict[str, tuple[Location, ...]]:
    """Locations by node of a NodeList, or of a single Node; none of what is neither."""
    try:
        document = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    items = document.get("items", [document]) if isinstance(document, dict) else []
    found: dict[str, tuple[Location, ...]] = {}
    for item in items if isinstance(items, list) else []:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            labels = metadata.get("labels")
            found[metadata["name"]] = of_labels(labels if isinstance(labels, dict) else {})
    return found


def of_labels(labels: Mapping[str, Any]) -> tuple[Location, ...]:
    """What the labels of one node say, from the narrowest level on."""
    told: dict[str, str] = {}
    for label, level in LABELS:
        value = labels.get(label)
        if isinstance(value, str) and value:
            told.setdefault(level, clean(value)[:_TEXT])
    layers = sorted(
        (int(layer[1]), value) for name, value in labels.items() if value and (layer := _AWS_LAYER.match(str(name)))
    )
    # The last layer is that to which the instance is connected.
    for level, (_, value) in zip(("leaf", "spine", "core"), reversed(layers), strict=False):
        told.setdefault(level, clean(str(value))[:_TEXT])
    return tuple(Location(level, told[level], SOURCE) for level in LEVELS if level in told)
