"""The checks of preflight. To add a check, add a row. The rules about hardware check the nodes as well.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand, at least 1 GiB of /dev/shm, and for ACS and IOMMU
translation to be off (runtime_and_mpi_issues, networking_troubleshooting, gpu_direct).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from collectors.samples.probes import Observation
from hangtop.diagnosis.addresses import chosen_interface, names_of
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.roster import living_on

T = TypeVar("T")
State = Literal["fail", "warn", "unknown", "ok"]
ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")
"""Red first."""
ANSWERING = ("live", "limited", "stale", "offline")
SHM = 1 << 30
LOCAL = ("127.", "::1", "169.254.", "fe80:", "172.17.")
"""Prefixes of addresses that no other node can reach: loopback, link-local, docker's bridge."""
Answer = tuple["bool | None", str] | tuple["bool | None", str, str]
"""Whether a node passes (None: unknown), what was found, and optionally a remedy in place of the row's."""
UNKNOWN: Answer = None, "the node did not say"


@dataclass(frozen=True, slots=True)
class Preflight:
    """The job (with or without ranks) and the answers of every node."""

    job: Job
    answers: Mapping[str, Sequence[Observation]] = field(default_factory=dict)
    master: tuple[str, int] = ("", 29500)
    """Address and port of the rendezvous."""
    master_node: str = ""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Nodes that did not answer the survey, and why."""

    def nodes(self) -> list[Node]:
        """Nodes that answer, by name."""
        return [node for _, node in sorted(self.job.nodes.items()) if node.link in ANSWERING]

    def answer(self, node: Node, name: str, subject: str = "") -> Observation | None:
        """One answer of a node; None if it was not asked or did not answer."""
        answers = self.answers.get(node.name, ())
        return next((answer for answer in answers if (answer.name, answer.subject) == (name, subject)), None)


class CheckCell(NamedTuple):
    """The result of one check on one node."""

    check: str
    node: str
    state: State
    figure: str
    kind: str = ""
    """Kind of the finding if the check fails (see ``docs/findings.md``)."""
    remedy: str = ""
    """The command or sentence that corrects it."""


class Check(NamedTuple):
    """A row of the table: the check, and the kind and remedy of the finding if a node fails it."""

    name: str
    kind: str
    remedy: str
    measure: Callable[[Preflight, Node], Answer | None] | None = None
    """Check one node by itself; None if the check does not apply to it."""
    alike: Callable[[Preflight, Node], str | None] | None = None
    """Or the value that all nodes must share: a node that differs from the most common value fails.

    Empty if the node is known to have none; None if unknown.
    """
    state: State = "fail"
    """State of a node that fails."""


def items(answer: Observation | None, kind: type[T]) -> list[T]:
    """The items of one type in an answer's list; empty without a list."""
    value = answer.value if answer is not None else None
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


# --- the nodes and the way between them ---------------------------------------------------------------------------


def reach(scene: Preflight, node: Node) -> Answer:
    """Whether the node answered, and whether all its samples could be read."""
    if node.name in scene.silent:
        return None, f"connected, but the checks were not answered: {scene.silent[node.name]}"
    if node.link in ANSWERING:
        return (None, node.why) if node.link == "limited" else (True, "answers")
    return False, node.why or f"is {node.link}"


def master_address(scene: Preflight, node: Node) -> Answer | None:
    """Whether the master's name resolves on this node, and to an address that other nodes can reach."""
    master = scene.master[0]
    answer = scene.answer(node, "resolve", master)
    addresses = items(answer, str)
    local = [address for address in addresses if len(scene.job.nodes) > 1 and address.startswith(LOCAL)]
    if local:
        return False, f"{master} is {local[0]} here, which no other node can reach"
    return answer and (bool(addresses), ", ".join(addresses) or f"{master}: {answer.error}")


def master_port(scene: Preflight, node: Node) -> Answer | None:
    """The rendezvous port on the master's node: it must be free, or held by the job's own rank or launcher."""
    if node.name != scene.master_node:
        return None
    port = scene.master[1]
    tried = scene.answer(node, "listen", str(port))
    if tried is None:
        return UNKNOWN
    holders = [str(holder) for holder in tried.value] if isinstance(tried.value, list) else []
    if not holders:
        return not tried.error, f"{port}: {tried.error or 'free'}"
    pids = {str(pid) for rank in living_on(scene.job, node.name) for pid in (rank.process.pid, rank.process.parent)}
    return any(holder.partition(" ")[0] in pids for holder in holders), f"{port} is held by {', '.join(holders)}"


def loopback(scene: Preflight, node: Node) -> Answer:
    """TCP connect of the node to itself, as torchrun's agent and its ranks need it."""
    answer = scene.answer(node, "loopback")
    if answer is None or not answer.error:
        return UNKNOWN if answer is None else (True, "connects")
    return _blocked(scene, answer.error, [node.name])


def paths(scene: Preflight, node: Node) -> Answer | None:
    """TCP from every node to the master's port, and between the master and an ephemeral port of every node."""
    tried = [answer for answer in scene.answers.get(node.name, ()) if answer.name == "connect"]
    broken = [answer for answer in tried if answer.error]
    if not broken:
        return (True, f"{len(tried)} open") if tried else None
    host = broken[0].subject.rpartition(":")[0]
    peers = [name for name, other in sorted(scene.job.nodes.items()) if host in names_of(other)]
    errors = listed([f"{answer.subject}: {answer.error}" for answer in broken])
    return _blocked(scene, errors, [*peers, node.name])


def _blocked(scene: Preflight, text: str, nodes: Sequence[str]) -> Answer:
    """A failed connection, with the firewall that is active on one of these nodes and that firewall's remedy."""
    firewall = firewall_of(scene.answers, nodes)
    return (False, text) if firewall is None else (False, f"{text}; {firewall[0]}", firewall[1])


# --- devices and limits -------------------------------------------------------------------------------------------


def pcie(scene: Preflight, node: Node) -> Answer | None:
    """PCIe ACS on bridges above GPUs, and IOMMU translation: both send traffic between GPUs through the CPU.

    NCCL may then hang at its first use of P2P, or read wrong data. Only root can read the bridges.
    """
    answer = scene.answer(node, "pcie")
    if answer is None or (answer.error and not items(answer, str)):
        return answer and (None, answer.error)
    return not items(answer, str), listed(items(answer, str), 3) or "no ACS redirect, no translation"


def memlock(scene: Preflight, node: Node) -> Answer:
    """Locked-memory limit of a login (-1 is unlimited): InfiniBand registers its buffers."""
    if not (limits := items(scene.answer(node, "limit", "memlock"), int)):
        return UNKNOWN
    return limits[0] < 0 or not node.ports, "unlimited" if limits[0] < 0 else f"{limits[0]} bytes"


def shared_memory(scene: Preflight, node: Node) -> Answer:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB by default."""
    if not (sizes := items(scene.answer(node, "disk", "/dev/shm"), int)):
        return UNKNOWN
    well = sizes[0] >= SHM and sizes[1] >= SHM // 4
    return well, f"{size(sizes[1])} free of {size(sizes[0])}{'' if well else f'; wanted {size(SHM)}'}"


def tracing(scene: Preflight, node: Node) -> Answer:
    """Whether stacks can be taken: with CAP_SYS_PTRACE, with Yama's scope 0, or as root unless the scope is 3."""
    if len(values := items(scene.answer(node, "ptrace"), int)) != 3:
        return UNKNOWN
    scope, root, capable = values
    well = bool(capable or not scope or (root and scope < 3))
    return well, f"ptrace_scope is {scope}, and this login is {'root' if root else 'not root'}"


def _mtu(scene: Preflight, node: Node) -> str | None:
    name = chosen_interface(scene.job, node)
    chosen = (facts for facts in node.interface_facts if facts.name == name and facts.kind != "loopback")
    return next((str(facts.mtu) for facts in chosen), None)


def _adapters(_: Preflight, node: Node) -> str | None:
    state = node.sources.get("fabric")
    if not node.ports and (state is None or state.state not in ("ok", "absent")):
        return None
    rates = sorted(port.facts.rate or 0.0 for port in node.ports.values() if port.facts.state.upper() == "ACTIVE")
    return f"{len(rates)} active at {'/'.join(f'{rate:g}' for rate in sorted(set(rates)))} Gb/s" if rates else ""


def _gpus(_: Preflight, node: Node) -> str | None:
    state = node.sources.get("gpus")
    if not node.gpus and (state is None or state.state != "absent"):  # no GPU listed yet
        return None
    kinds = Counter(gpu.facts.name if gpu.facts else "unknown" for gpu in node.gpus.values())
    return ", ".join(f"{number} × {name}" for name, number in sorted(kinds.items()))


def _version(name: str) -> Callable[[Preflight, Node], str | None]:
    return lambda _, node: node.host.versions.get(name) if node.host else None


REACH = Check("reach", "node_unreachable", "Try the same connection in a shell, for example: ssh NODE true", reach)
CHECKS = (
    Check("address", "path_blocked", "Set MASTER_ADDR to the address of an interface that the nodes share: "
          "ip -br address; getent hosts $MASTER_ADDR", master_address),
    Check("port", "preflight_failed", "Take another MASTER_PORT, or end what holds it: fuser -k $MASTER_PORT/tcp",
          master_port),
    Check("loopback", "preflight_failed", "ip link set lo up; nft list ruleset", loopback),
    Check("paths", "path_blocked", "Look for a firewall (nft list ruleset) and at the route (ip route get HOST); then "
          "nc -vz HOST PORT", paths),
    Check("PCIe", "preflight_failed", "Outside virtual machines: ACS off in the BIOS or by setpci -s BRIDGE "
          "ECAP_ACS+6.w=0; iommu=pt on the kernel's command line", pcie, state="warn"),
    Check("memlock", "preflight_failed", "ulimit -l unlimited (for good: in /etc/security/limits.conf)", memlock),
    Check("/dev/shm", "preflight_failed",
          "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or --ipc=host)", shared_memory),
    Check("ptrace", "preflight_failed",
          "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add SYS_PTRACE)", tracing),
    Check("MTU", "mtu_mismatch", "ip link set INTERFACE mtu N, the same on every hop (ip -br link)", alike=_mtu),
    Check("fabric", "ib_port_down", "ibstat: check the cable of a port that is not active, the rate of one that is",
          alike=_adapters),
    Check("GPUs", "gpu_lost", "nvidia-smi -L; dmesg | grep -i xid", alike=_gpus),
    *(Check(name, "env_mismatch", "Install the same image on every node.", alike=_version(library))
      for name, library in (("driver", "nvidia"), ("CUDA", "cuda"), ("NCCL", "nccl"), ("torch", "torch"))),
)  # fmt: skip
