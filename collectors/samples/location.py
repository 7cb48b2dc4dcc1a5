"""Where a node, or one port of it, hangs in the building."""

from __future__ import annotations

from typing import NamedTuple, Tuple

HOST = "host"
"""The level of a pod: the Kubernetes node that it runs on."""
LEVELS: Tuple[str, ...] = (HOST, "leaf", "rack", "block", "spine", "core")
"""What things may be shared by nodes, from the narrowest on."""

HOST_VARIABLES: Tuple[str, ...] = ("NODE_NAME", "MY_NODE_NAME", "K8S_NODE_NAME", "KUBERNETES_NODE_NAME")
"""What pods call the name of their node, which they have from their specification (``fieldRef: spec.nodeName``)."""


class Location(NamedTuple):
    """One thing that a node shares with its neighbours."""

    level: str
    """One of :data:`LEVELS`."""
    name: str
    source: str
    """Who says so, for people: ``scontrol``, ``kubectl``, or the name of a file."""
