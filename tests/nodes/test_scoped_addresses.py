"""A real sshd at an address that holds on one interface alone: named as it is, with a port, and by the ssh_config."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.targets.chosen import parse
from tests.support.cluster import Cluster
from tests.support.cluster_node import sshd_binary
from tests.support.ssh_server import Person

pytestmark = pytest.mark.nodes

PORT = 2222
_LINK = re.compile(r"inet6 (fe80::[0-9a-f:]+)/64 scope link (?!tentative)")


def link_address(show: Callable[[Sequence[str]], subprocess.CompletedProcess[str]], interface: str) -> str:
    """The address that a kernel gave to an interface, once it is sure that nobody else has it."""
    deadline = time.monotonic() + 30
    while (found := _LINK.search(show(["ip", "-6", "-o", "addr", "show", "dev", interface]).stdout)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found.group(1)


def here(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command on this machine."""
    return subprocess.run(words, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def scoped() -> Iterator[tuple[Path, str]]:
    """An ssh_config that knows an alias for the node, and its address with this machine's interface."""
    with Cluster(1) as cluster:
        (node,) = cluster.nodes
        lines = Path(f"{node.root}/sshd_config").read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("ListenAddress", "Port", "PidFile"))]
        own = node.root / "sshd_config_6"
        own.write_text("\n".join([f"Port {PORT}", "ListenAddress ::", *kept]) + "\n")
        node.run([str(sshd_binary()), "-f", str(own)])
        link_address(here, cluster.bridge)  # before that nothing leaves by it
        address = f"{link_address(node.run, 'eth0')}%{cluster.bridge}"
        config = cluster.root / "ssh_config_6"
        config.write_text(
            f"Host alias\n  HostName {address.replace('%', '%%')}\nHost *\n  User root\n  Port {PORT}\n"
            f"  IdentityFile {cluster.root}/id\n  IdentityAgent none\n  StrictHostKeyChecking accept-new\n"
            f"  UserKnownHostsFile {cluster.root}/known_hosts_6\n"
        )
        yield config, address


@pytest.mark.parametrize("form", ["{}", "root@[{}]:2222", "alias"])
async def test_it_is_reached(scoped: tuple[Path, str], form: str) -> None:
    config, address = scoped
    (target,) = parse([form.format(address)])
    connector = Connector(SshConfig.load(config), Questions(Person(), batch=True))
    node = Ssh(target.name, connector.settings(target.host, target.user, target.port), connector)
    try:
        await node.connect()
        assert (await node.run(["hostname"])).stdout.strip() == b"node1"
    finally:
        await node.close()
        await connector.close()
