"""Kernel lines, as dmesg, journal and syslog print them."""

import pytest

from collectors.node.logs import kernel_lines as kernel
from collectors.node.logs import rule as gpu_drivers
from collectors.samples.values import Value

LINES: dict[str, tuple[str, dict[str, Value]]] = {
    "NVRM: Xid (PCI:0000:5f:00): 79, pid=1234, name=python, GPU has fallen off the bus.": (
        "kernel.xid",
        {"code": 79, "bus_id": "0000:5f:00", "pid": 1234, "process": "python"},
    ),
    "NVRM: Xid (PCI:0000:9D:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": (
        "kernel.xid",
        {"code": 79, "bus_id": "0000:9d:00"},
    ),
    "NVRM: GPU 0000:5f:00.0: GPU has fallen off the bus.": ("kernel.xid", {"code": 79, "bus_id": "0000:5f:00"}),
    "NVRM: fallen off the bus and is not responding to commands.": ("kernel.xid", {"code": 79}),
    "NVRM: Xid (PCI:0000:4b:00): 48, An uncorrectable double bit error (DBE) has been detected": (
        "kernel.xid",
        {"code": 48},
    ),
    "[ 1234.5678] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error": (
        "kernel.sxid",
        {"code": 12028, "fatal": False, "bus_id": "0000:05:00"},
    ),
    "Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:2048kB, file-rss:0kB": (
        "kernel.oom",
        {"pid": 4711, "process": "python", "rss": 2048 << 10},
    ),
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/s,task_memcg=/s/job_7/step,"
    "task=python,pid=42,uid=1000": (
        "kernel.oom",
        {"pid": 42, "constraint": "CONSTRAINT_MEMCG", "cgroup": "/s/job_7/step", "process": "python"},
    ),
    "INFO: task python:4242 blocked for more than 120 seconds.": (
        "kernel.hung_task",
        {"process": "python", "pid": 4242, "seconds": 120},
    ),
    "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:99]": (
        "kernel.lockup",
        {"cpu": 3, "seconds": 22, "hard": False, "process": "python"},
    ),
    "nfs: server fs1 not responding, still trying": ("kernel.nfs", {"server": "fs1", "ok": False}),
    "nfs: server fs1 OK": ("kernel.nfs", {"ok": True}),
    "python[123]: segfault at 0 ip 00007f5 sp 00007ffc error 4 in libnccl.so.2.21.5[7f5+1000]": (
        "kernel.segfault",
        {"process": "python", "pid": 123, "library": "libnccl.so.2.21.5"},
    ),
    "mlx5_core 0000:9c:00.0 ens1f0: Link down": ("kernel.link", {"up": False}),
    "mlx5_core 0000:9c:00.0: Detected insufficient power on the PCIe slot (27W).": (
        "kernel.link",
        {"problem": "Detected insufficient power on the PCIe slot"},
    ),
    "mlx5_core 0000:9c:00.0: 252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link": (
        "kernel.pcie",
        {"device": "0000:9c:00.0"},
    ),
    "detected NVSwitch fatal error 11001": ("kernel.fabric_manager", {"fatal": True, "code": 11001}),
}


@pytest.mark.parametrize("text", LINES)
def test_a_line(text: str) -> None:
    kind, expected = LINES[text]
    event = kernel.event(text, 7.0, "dmesg", 3)
    assert event is not None
    assert (event.kind, event.at, event.source, event.line) == (kind, 7.0, "dmesg", 3)
    assert expected.items() <= event.data.items()


@pytest.mark.parametrize(
    "text",
    [
        "systemd[1]: Started Session 7 of user root.",
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        "nvidia-uvm: Loaded the UVM driver, major device number 510.",
        "",
    ],
)
def test_what_matters_to_nobody(text: str) -> None:
    assert kernel.event(text, None, "dmesg") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("PCI:0000:5F:00", "0000:5f:00"), ("5f:00.0", "0000:5f:00"), ("00000000:5F:00.0", "0000:5f:00")],
)
def test_bus_ids_of_all_tools_compare(text: str, expected: str) -> None:
    assert gpu_drivers.bus_id(text.replace("PCI:", "")) == expected
