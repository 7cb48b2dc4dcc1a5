"""Which ports of a node a probe can bind its ranks to."""

from __future__ import annotations

from collectors.probes.allreduce.ports import LocalPort
from collectors.samples.fabric import Interface, PortFacts
from hangtop.diagnosis.job import NetworkUse, Node
from hangtop.diagnosis.job import Port as Hca
from hangtop.session.asking.probing import ports_of


def interface(name: str, *addresses: str, up: bool = True, kind: str = "physical") -> Interface:
    return Interface(name, 1500, 100_000, up, list(addresses), kind)


def hca(device: str, rate: float | None, state: str = "ACTIVE") -> Hca:
    return Hca(PortFacts(device, 1, "InfiniBand", state, "LinkUp", rate, "", 1, 1, "", "", ""))


def test_interfaces_that_lead_to_other_nodes() -> None:
    node = Node("node1", network=NetworkUse((
        interface("lo", "127.0.0.1/8", kind="loopback"),
        interface("eth0", "fd00::1/64", "10.0.0.1/24"),
        interface("eth1", "10.1.0.1/24", up=False),
        interface("eth2"),
        interface("eth3", "fe80::1/64"),
        interface("eth4", "\x1b[31m/24"),
        interface("docker0", "172.17.0.1/16", kind="virtual"),
        interface("ib0", "fd00:1::7/64", kind="ipoib"),
    )))  # fmt: skip
    assert list(ports_of(node)) == [
        LocalPort("eth0", "interface", "10.0.0.1", "10.0.0.0/24"),
        LocalPort("ib0", "interface", "fd00:1::7", "fd00:1::/64"),
    ]  # fmt: skip


def test_of_hcas_the_fastest_that_are_active() -> None:
    node = Node("node1", ports=(hca("mlx5_0", 400.0), hca("mlx5_1", 100.0), hca("mlx5_2", 400.0, "DOWN"),
                                hca("mlx5_3", 400.0)))  # fmt: skip
    assert list(ports_of(node)) == [LocalPort("mlx5_0/1", "hca"), LocalPort("mlx5_3/1", "hca")]
