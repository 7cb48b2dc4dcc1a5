"""Ways into the nodes of a test cluster for ``--via``: by OpenSSH's client, and straight into their namespaces."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType

from tests.support.cluster import Cluster


def by_openssh(cluster: Cluster) -> str:
    """The real ``ssh``, whose connection can be cut."""
    return f"ssh -F {shlex.quote(str(cluster.ssh_config))} -o BatchMode=yes -o ConnectTimeout=3 %h sh"


def by_nsenter(cluster: Cluster, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """``nsenter``, with a banner before the shell; no sshd and no network takes part.

    ``environment`` is what a container would give to everything that is started there.
    """
    given = [f"{name}={value}" for name, value in environment.items()]
    cases = ""
    for node in cluster.nodes:
        words = shlex.join(node.enter(["env", f"PATH={node.path}", *given, "sh"]))
        cases += f"  {node.name}) echo welcome to {node.name}; exec {words};;\n"
    script = cluster.root / "enter"
    script.write_text(f'#!/bin/sh\ncase $1 in\n{cases}  *) echo "no node $1" >&2; exit 4;;\nesac\n')
    script.chmod(0o755)
    return f"{script} %h"
