"""Every source by name, in the order in which a tick sends them: at the tick's byte limit, the last sources wait.

A source's module is imported in its own thread at its first read, so that a slow import delays no other source.
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
"""Resources too large for every payload, and the path whose existence shows that this node can use one."""


def load(name: str) -> Type[Source]:
    """Import a source's module and return its class."""
    module, _, attribute = SOURCES[name].partition(":")
    found: Type[Source] = getattr(__import__(module, fromlist=[attribute]), attribute)
    return found
