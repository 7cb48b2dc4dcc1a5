"""What the node side reads there: /proc, the kernel's log, environments, and what tools print."""

from __future__ import annotations

from collectors.node import redact as redaction
from collectors.node.logs import file_names as names
from collectors.node.logs.parser import kernel_event
from collectors.node.machine.kernel import parse_dmesg, parse_kmsg
from collectors.node.netlink import messages
from collectors.node.network import ib_tools
from collectors.node.network import source as network_source
from collectors.node.processes import environ, mounts, procfs
from collectors.node.processes.sockets import tcp_socket
from collectors.node.stacks import pyspy_output
from collectors.probes.infiniband import parse_bandwidth, parse_devinfo
from collectors.probes.path import parse_iperf
from tests.support.fuzzing import Target, fixtures
from tests.support.ib_tools import BANDWIDTH, DEVINFO, PING, ROUTE


def _kernel(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for line in text.splitlines():
        kernel_event(line, 1.0, "dmesg")
    parse_dmesg(text)
    parse_kmsg(data)


def _words(data: bytes) -> None:
    words = data.decode("utf-8", "replace").split("\0")
    redaction.command(words, 2048)
    redaction.shapes(words[0])
    environ.presentable(environ.parse(data))
    environ.rank_of(environ.parse(data))
    names.hints(words[0])


def _proc(data: bytes) -> None:
    procfs.parse_stat(data)
    procfs.parse_status(data, 4711)
    procfs.parse_io(data)
    procfs.parse_limit(data, b"Max open files")
    procfs.parse_syscall(data)
    procfs.parse_wchan(data)
    procfs.parse_cgroup(data)
    mounts.parse(data.decode("utf-8", "replace"))
    network_source.parse_snmp_tcp(data)
    for _, body in messages(data):
        tcp_socket(body)


def _stacks(data: bytes) -> None:
    pyspy_output.failure(data)
    try:
        pyspy_output.main_thread(pyspy_output.threads(data, 4711, 7), 4711)
    except (ValueError, RecursionError):  # the dumper says "torn" for both
        return


def _tools(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    ib_tools.parse_ibstat(text)
    ib_tools.parse_perfquery(text)
    parse_devinfo("node1", text)
    parse_bandwidth(text)
    parse_iperf(text)


def targets() -> dict[str, Target]:
    """These targets."""
    printed = tuple(text.encode() for text in (DEVINFO, BANDWIDTH, ROUTE, PING))
    printed += fixtures("seeds/ibstat/*") + fixtures("seeds/iperf/*") + fixtures("devices/perfquery*")
    refused = b"Error: Failed to suspend process\n\nCaused by:\n    EPERM\n"
    return {
        "kernel": Target(_kernel, fixtures("seeds/lines/*")),
        "words": Target(_words, fixtures("seeds/words/*")),
        "proc": Target(_proc, fixtures("seeds/proc/*")),
        "stacks": Target(_stacks, (*fixtures("stacks/a*.jsonl"), refused)),
        "tools": Target(_tools, printed),
    }
