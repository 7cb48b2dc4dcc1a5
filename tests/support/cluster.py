"""Real nodes made here: a network, PID, mount, IPC and UTS namespace each, with OpenSSH listening in it.

    with Cluster(3) as cluster:
        cluster.nodes[0].run(["hostname"])
        # hangtop -F cluster.ssh_config node1 node2 node3

A node has its own host name (``node1`` …), address, host key, /tmp, /dev/shm, /run, boot id, /sys/class/infiniband (the
folder ``node.infiniband``) and a folder first on its PATH (``node.bin``) for simulated tools. All else of the file
system is shared. Several clusters can exist at once. Everything ends with the process that made it, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.support.cluster_node import Node, sshd_binary

REPOSITORY = Path(__file__).resolve().parents[2]
BASE = Path("/var/tmp")
_NETWORKS = 200


@cache
def missing_rights() -> str:
    """Why no cluster can be made here; empty when one can."""
    if os.geteuid() != 0:
        return "real nodes need root"
    tools = [tool for tool in ("ip", "unshare", "nsenter", "setpriv", "ssh-keygen") if shutil.which(tool) is None]
    if sshd_binary() is None:
        tools.append("sshd")
    if tools:
        return f"real nodes need {', '.join(tools)}"
    mounts = "mount -t tmpfs none /mnt && mount -t sysfs none /sys"
    trial = f"{mounts} && ip link add hx0 type bridge && ip link add hx1 type veth"
    done = subprocess.run(
        ["unshare", "-m", "-u", "-i", "-p", "-n", "--fork", "sh", "-c", trial],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else f"this sandbox makes no namespaces: {done.stderr.strip()}"


class Cluster:
    """``size`` nodes on one bridge; a context manager."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.nodes: list[Node] = []
        self._stack = contextlib.ExitStack()

    # --- life ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if reason := missing_rights():
            raise RuntimeError(reason)
        with contextlib.ExitStack() as stack:
            self.number = _take_network(stack)
            self.bridge = f"hxbr{self.number}"
            self.root = Path(tempfile.mkdtemp(prefix=f"hangtop-cluster-{self.number}-", dir=BASE))
            stack.callback(shutil.rmtree, self.root, ignore_errors=True)
            self.shared = self.root / "shared"
            self.shared.mkdir()
            self._make_bridge()
            stack.callback(self._delete_links)
            self._make_nodes(stack)
            self._write_client_files()
            for node in self.nodes:
                node.start_sshd()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _make_bridge(self) -> None:
        self._delete_links()  # of a run that was killed, or whose namespaces take their time to go
        _ip(f"link add {self.bridge} type bridge", f"addr add {self.address(254)}/24 dev {self.bridge}",
            f"link set {self.bridge} up")  # fmt: skip

    def _delete_links(self) -> None:
        present = {entry.name for entry in Path("/sys/class/net").iterdir()}
        mine = [name for name in present if name == self.bridge or name.startswith(f"hx{self.number}p")]
        for name in mine:
            subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)

    def _make_nodes(self, stack: contextlib.ExitStack) -> None:
        keep = [str(REPOSITORY), sys.prefix, sys.base_prefix]
        addresses = [self.address(index) for index in range(1, self.size + 1)]
        hosts = "127.0.0.1 localhost\n" + "".join(f"{a} node{i}\n" for i, a in enumerate(addresses, 1))
        inits: list[subprocess.Popen[str]] = []
        for index, address in enumerate(addresses, 1):
            node = Node(f"node{index}", address, self.root / f"node{index}", f"hx{self.number}p{index}")
            _make_folders(node, hosts)
            self.nodes.append(node)
            stack.callback(node.end_programs)
            plan = {"hostname": node.name, "address": f"{address}/24", "root": str(node.root), "keep": keep}
            inits.append(_start_init(json.dumps(plan)))
            stack.callback(_end, inits[-1])
        for node, init in zip(self.nodes, inits, strict=True):
            node.init_pid = int(_line(init))
        # The far end's name "eth0" exists in each node; the near end is a port of the bridge.
        _ip(*(f"link add {node.port} type veth peer name eth0 netns {node.init_pid}" for node in self.nodes),
            *(f"link set {node.port} master {self.bridge} up" for node in self.nodes))  # fmt: skip
        for init in inits:
            assert init.stdin is not None
            init.stdin.write("go\n")
            init.stdin.flush()
        for init in inits:
            if (word := _line(init)) != "ready":
                raise RuntimeError(f"a node did not come up: {word}")

    def _write_client_files(self) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.root / "id")], check=True)
        public = (self.root / "id.pub").read_text()
        for node in self.nodes:
            node.make_host_key(public)
        self.known_hosts = self.root / "known_hosts"
        self.known_hosts.write_text("".join(f"{node.address} {node.host_key()}\n" for node in self.nodes))
        self.ssh_config = self.root / "ssh_config"
        self.ssh_config.write_text(
            "".join(f"Host {node.name}\n  HostName {node.address}\n" for node in self.nodes)
            + f"Host *\n  User root\n  IdentityFile {self.root / 'id'}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n"
        )

    # --- use -----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """``node1`` … as :attr:`ssh_config` knows them."""
        return [node.name for node in self.nodes]

    def address(self, index: int) -> str:
        """Address of the ``index``-th node; 254 is this machine on the bridge."""
        return f"10.77.{self.number}.{index}"

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self.nodes[self.names.index(name)]

    def add_network(self) -> None:
        """Give every node an ``eth1`` on a bridge of its own: ``10.78.N.i`` where ``eth0`` has ``10.77.N.i``."""
        bridge = f"hx{self.number}pbr"  # goes with the ports: see _delete_links
        _ip(f"link add {bridge} type bridge", f"link set {bridge} up")
        for index, node in enumerate(self.nodes, 1):
            _ip(f"link add {node.port}b type veth peer name eth1 netns {node.init_pid}",
                f"link set {node.port}b master {bridge} up")  # fmt: skip
            address = f"addr add 10.78.{self.number}.{index}/24 dev eth1"
            node.run(["ip", "-batch", "-"], stdin=f"{address}\nlink set eth1 up\n")


def _take_network(stack: contextlib.ExitStack) -> int:
    """Claim one of the 10.77.N.0/24 networks; the lock goes with the process."""
    for number in range(_NETWORKS):
        lock = (BASE / f"hangtop-cluster-{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        stack.callback(lock.close)
        for left in BASE.glob(f"hangtop-cluster-{number}-*"):
            shutil.rmtree(left, ignore_errors=True)
        return number
    raise RuntimeError(f"all {_NETWORKS} test networks are in use")


def _make_folders(node: Node, hosts: str) -> None:
    for folder in (node.root, node.bin, node.tmp, node.infiniband):
        folder.mkdir()
    node.tmp.chmod(0o1777)
    (node.root / "hosts").write_text(hosts)
    (node.root / "boot_id").write_text(f"{uuid.uuid4()}\n")


def _start_init(plan: str) -> subprocess.Popen[str]:
    program = str(Path(__file__).with_name("node_init.py"))
    return subprocess.Popen(
        ["unshare", "-m", "-u", "-i", "-p", "-n", "--fork", "--kill-child", sys.executable, "-I", "-S", program, plan],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(init: subprocess.Popen[str]) -> str:
    out: IO[str] | None = init.stdout
    assert out is not None
    if not (line := out.readline()):
        raise RuntimeError(f"a node ended with {init.wait()} before it was up")
    return line.strip()


def _end(init: subprocess.Popen[str]) -> None:
    init.kill()
    init.communicate()


def _ip(*lines: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)
