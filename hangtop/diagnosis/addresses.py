"""Which interface and address of a node the job's traffic uses, and the names by which logs refer to a node."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node


def interface_of(node: Node, setting: str | None) -> str | None:
    """Name the interface that NCCL would choose on a node for NCCL_SOCKET_IFNAME; None without a match.

    NCCL's order (``src/misc/socket.cc``): the given list; else ``ib*``, then any other except ``docker*`` and ``lo``,
    then ``docker*``, then ``lo``.
    """
    names = [interface.name for interface in node.interface_facts if interface.up]
    if setting:
        exclude, exact = setting.startswith("^"), "=" in setting[:2]
        wanted = [word.strip().partition(":")[0] for word in setting.lstrip("^=").split(",") if word.strip()]

        def listed(name: str) -> bool:
            return any(name == want if exact else name.startswith(want) for want in wanted)

        return next((name for name in names if listed(name) != exclude), None)
    return min(names, key=_preference, default=None)


def _preference(name: str) -> int:
    return 0 if name.startswith("ib") else 3 if name == "lo" else 2 if name.startswith("docker") else 1


def chosen_interface(job: Job, node: Node) -> str | None:
    """Interface that NCCL or gloo takes on a node, by the environment of its first living rank."""
    ranks = [rank for rank in job.ranks_of(node.name) if rank.gone_at is None]
    environment = ranks[0].process.env if ranks else {}
    return interface_of(node, environment.get("NCCL_SOCKET_IFNAME") or environment.get("GLOO_SOCKET_IFNAME"))


def address_of(job: Job, node: Node) -> str:
    """Address at which the job's network reaches a node (IPv4 first); its name if the chosen interface has none."""
    name = chosen_interface(job, node)
    for interface in node.interface_facts:
        if interface.name == name and interface.addresses:
            held = [address.partition("/")[0] for address in interface.addresses]
            return next((address for address in held if ":" not in address), held[0])
    return node.name


def names_of(node: Node) -> set[str]:
    """Names that logs use for a node: its name here, its own hostname, the addresses of its interfaces."""
    addresses = {address.partition("/")[0] for interface in node.interface_facts for address in interface.addresses}
    return addresses | {node.name} | ({node.hello.hostname} if node.hello else set())


def nodes_by_name(job: Job, samples: Iterable[tuple[str, StackDump]] = ()) -> dict[str, str]:
    """Node by each name or address; empty for an address that several nodes have, as loopback and bridges do.

    ``samples`` are pairs of node and stack dump: they add the addresses of ranks in container networks.
    """
    by_name: dict[str, str] = {}
    names = [(node.name, name) for node in job.nodes.values() for name in names_of(node)]
    for node, name in [*names, *((node, address) for node, dump in samples for address in dump.addresses)]:
        by_name[name] = node if by_name.get(name, node) == node else ""
    return by_name
