"""Checks a node before (or without) a job: ports it can listen on, targets it can reach, and limits of future ranks.

Prints one ``Observation`` per line and ends. When asked to listen, it stays as long as heartbeats come, so that other
nodes can connect. It changes nothing on the node except for listening on these ports.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from collectors.node import redact, watchdog
from collectors.node.files import list_folder, read_or_none, read_text
from collectors.node.network import tcp
from collectors.node.network.firewall import firewalls
from collectors.node.processes import procfs
from collectors.node.processes.sockets import LISTEN, socket_owner, tcp_sockets
from collectors.node.wire import say
from collectors.samples.probes import Observation


def look(master: str) -> Iterator[Observation]:
    """Local checks of this node."""
    yield Observation("loopback", "", True, tcp.loopback())
    # soft and hard limit of a login, and so of a rank started by ssh; -1 is unlimited
    yield Observation("limit", "memlock", list(resource.getrlimit(resource.RLIMIT_MEMLOCK)), "")
    with suppress(OSError):
        shm = os.statvfs("/dev/shm")
        yield Observation("disk", "/dev/shm", [shm.f_blocks * shm.f_frsize, shm.f_bavail * shm.f_frsize], "")
    # Yama's scope (0 to 3; 0 without Yama), whether this user is root, whether it holds CAP_SYS_PTRACE
    scope = int(read_or_none("/proc/sys/kernel/yama/ptrace_scope") or b"0")
    yield Observation("ptrace", "", [scope, os.getuid() == 0, procfs.may_trace_all()], "")
    if master:
        addresses, why = tcp.resolve(master)
        yield Observation("resolve", master, list(addresses), why)
    yield from firewalls()
    yield from pcie()


def reach(targets: List[Tuple[str, int]]) -> Iterator[Observation]:
    """Connect to all targets at once; each value is the seconds it took, or the error says why it failed."""
    wanted = sorted(set(targets))
    with ThreadPoolExecutor(len(wanted) or 1) as pool:
        answers = list(pool.map(lambda target: tcp.connect(*target), wanted))
    return (Observation("connect", "%s:%d" % target, *answer) for target, answer in zip(wanted, answers))


def listen(ports: List[int]) -> Iterator[Observation]:
    """Listen on ports (0: any free port), and accept connections for as long as this program runs.

    Each value is the port, or the processes that already listen on it.
    """
    for port in ports:
        listener, why = tcp.listen(port)
        if listener is None:
            yield Observation("listen", str(port), list(holders(port)), why)
            continue
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        yield Observation("listen", str(port), int(listener.getsockname()[1]), "")


def holders(port: int) -> List[str]:
    """``pid command`` of the visible processes that listen on a port."""
    pids: Set[Optional[int]] = set()
    with suppress(OSError):  # a container without netlink
        listening = tcp_sockets(os.getpid(), 1 << LISTEN, port=port)
        pids.update(socket_owner(listener.inode) for listener in listening)
    commands = {pid: procfs.split_zeros(read_or_none("/proc/%d/cmdline" % pid) or b"") for pid in pids if pid}
    return ["%d %s" % (pid, redact.command(words, 256) or "?") for pid, words in sorted(commands.items())]


def _accept(listener: socket.socket) -> None:
    """Accept connections and close them: a full backlog would look like a firewall."""
    with suppress(OSError):
        while True:
            listener.accept()[0].close()


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``listen``: ports, ``connect``: [host, port] pairs, ``master``: host, ``look``: do local checks."""
    answers = list(listen(arguments.get("listen", [])))
    say(*answers)
    targets = [(host, port) for host, port in arguments.get("connect", [])]
    looked = look(arguments.get("master", "")) if arguments.get("look", True) else iter(())
    say(*looked, *reach(targets))
    if any(isinstance(answer.value, int) for answer in answers):
        watchdog.stay()


# --- PCIe -----------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""Display and 3D controllers, processing accelerators."""
_GPU_VENDORS = ("0x10de", "0x1002")
_EXTENDED = 0x100
"""Offset of the extended capabilities; a user other than root can read only the first 64 bytes of the config space."""
_ACS = 0x0D
_REDIRECTS = 0x04 | 0x08
"""P2P Request Redirect and Completion Redirect in the ACS control register."""


def pcie(sys: str = "/sys") -> List[Observation]:
    """Settings that route PCIe traffic between GPUs through the CPU: ACS on the bridges above them, and the IOMMU.

    One observation if the node has GPUs, with an error if the bridges could not be read.
    """
    folder = sys + "/bus/pci/devices/"
    gpus = [name for name in list_folder(folder) if _is_gpu(folder + name)]
    wrong, unread = [], False
    bridges: Set[str] = set()
    for gpu in gpus:
        domain = read_text("%s%s/iommu_group/type" % (folder, gpu))
        if domain.startswith("DMA"):
            wrong.append("IOMMU translates for %s (%s)" % (gpu, domain))
        bridges.update(part for part in os.path.realpath(folder + gpu).split("/")[:-1] if _ADDRESS.match(part))
    for bridge in sorted(bridges):
        known, redirects = _acs(read_or_none("%s%s/config" % (folder, bridge)) or b"")
        unread = unread or not known
        if redirects:
            wrong.append("ACS redirects at bridge %s" % bridge)
    why = "bridges are read by root alone" if unread else ""
    return [Observation("pcie", "", list(wrong), why)] if gpus else []


def _is_gpu(device: str) -> bool:
    kind, vendor = read_text(device + "/class"), read_text(device + "/vendor").strip()
    return kind.startswith(_GPU_CLASSES) and vendor in _GPU_VENDORS


def _acs(config: bytes) -> Tuple[bool, bool]:
    """Whether the extended capabilities could be read, and whether ACS redirects traffic."""
    at, seen = _EXTENDED, set()
    while at and at not in seen and at + 8 <= len(config):
        seen.add(at)
        header, _, control = struct.unpack_from("<IHH", config, at)
        if header & 0xFFFF == _ACS:
            return True, bool(control & _REDIRECTS)
        at = header >> 20
    return len(config) > _EXTENDED, False
