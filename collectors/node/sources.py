"""Every source by name, in the order in which a tick sends them: when its bytes run out, the last ones wait.

A source's module is imported in its own thread when it is first asked, so that a slow import delays nobody.
"""

from __future__ import annotations

from typing import Dict, Type

from collectors.node.source import Source

SOURCES: Dict[str, str] = {
    "ranks": "collectors.node.ranks.source:RankSource",
    "host": "collectors.node.machine.host:HostSource",
    "pages": "collectors.node.processes.pages:PageSource",
    "disks": "collectors.node.machine.disks:DiskSource",
    "software": "collectors.node.machine.software:SoftwareSource",
    "network": "collectors.node.network.source:NetworkSource",
    "kernel": "collectors.node.machine.kernel:KernelSource",
    "logs": "collectors.node.logs.following.source:LogSource",
    "gpus": "collectors.node.gpus.nvidia:Gpus",
    "gpu_processes": "collectors.node.gpus.nvidia:GpuUsers",
    "fabric": "collectors.node.network.fabric:Fabric",
    "nvlink": "collectors.node.gpus.nvlink:NvlinkServices",
    "topology": "collectors.node.gpus.nvlink:GpuTopology",
    "nvml": "collectors.node.gpus.nvml:Nvml",
}
"""Name → ``module:class``. To add a source, write its file and add its line."""

WANTS: Dict[str, str] = {"nvml": "/dev/nvidiactl"}
"""What is too large to be sent to every node, and the path that shows that this one has a use for it."""


def load(name: str) -> Type[Source]:
    """Class of a source, imported now."""
    module, _, attribute = SOURCES[name].partition(":")
    found: Type[Source] = getattr(__import__(module, fromlist=[attribute]), attribute)
    return found
