"""InfiniBand and RoCE ports: down, flapping, or with error counters that grow."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job, Node, Port
from hangtop.diagnosis.phrasing import listed


class Symptom(NamedTuple):
    """What the growth of some counters means."""

    kind: str
    counters: tuple[str, ...]
    meaning: str
    advice: str


SYMPTOMS = (
    Symptom("ib_link_flapped", ("link_downed", "link_error_recovery"), "the link went down or had to recover",
            "Check cable and transceiver at both ends; a link that flaps breaks every collective over it."),
    Symptom("ib_port_errors", (
                "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors", "port_xmit_discards",
                "excessive_buffer_overrun_errors", "local_link_integrity_errors",
            ), "packets arrive broken or are thrown away",
            "Symbol errors: replace cable or transceiver. Receive errors: look at the port at the far end. "
            "Discards: congestion, or a slow receiver. Overruns: compare MTU and firmware of both ends."),
    Symptom("roce_retransmits", (
                "packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err",
                "rnr_nak_retry_err", "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
            ), "packets are lost and sent again: from the port that counts packet_seq_err to that of out_of_sequence",
            "Check PFC and ECN settings along that path, then cable and switch port; the one peer that all time out on "
            "is the faulty one."),
)  # fmt: skip
"""Counters of the kernel's sysfs ABI (``sysfs-class-infiniband``) and hw_counters of mlx5 (NVIDIA's "understanding mlx5
counters"): growth of any while the job runs is a finding. CNP, ECN and port_xmit_wait are pressure, not errors."""
HINTS = {"Polling": ": no signal from the far end", "Disabled": ": it was switched off"}


def port_down(job: Job) -> Iterator[Finding]:
    """ib_port_down: a port that is not Active or has no link, while most of its peers are up.

    Its peers are the same port of other nodes, else its neighbours on this node. A port that is down everywhere is not
    cabled; one that waits for a subnet manager is at fault by itself.
    """
    same: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for _, port in _ports(job):
        same[port.facts.device, port.facts.port].append(_is_up(port))
    for node, port in _ports(job):
        facts = port.facts
        if _is_up(port) or _flaps(port):
            continue
        others = same[facts.device, facts.port][:]
        others.remove(False)
        peers = others or [_is_up(one) for one in node.ports if one is not port]
        unmanaged = facts.state == "INIT" and facts.phys_state == "LinkUp" and facts.link_layer == "InfiniBand"
        if not unmanaged and sum(peers) * 2 <= len(peers):
            continue
        hint = ": no subnet manager has set it up" if unmanaged else HINTS.get(facts.phys_state, "")
        alone = unmanaged and not any(map(_is_up, node.ports))
        yield Finding(
            "ib_port_down", "critical" if others or alone else "warning", 0.9 if others else 0.7,
            f"port {facts.device}/{facts.port} on {node.name} is "
            f"{', '.join(filter(None, (facts.state, facts.phys_state)))}{hint}"
            f"{f'; {sum(peers)} of {len(peers)} peers are up' if peers else ''}",
            nodes=(node.name,), ports=(_name(node, port),), evidence=(_state_proof(node, port),),
            advice="Check the cable and the switch port; Polling means that no light comes from the far end.",
        )  # fmt: skip


def port_errors(job: Job) -> Iterator[Finding]:
    """The kinds of :data:`SYMPTOMS`, by any growth of their counters while the port was watched.

    A port that went down and came back counts as ib_link_flapped.
    """
    for node, port in _ports(job):
        grown, flaps = port.grown, _flaps(port)
        for kind, counters, meaning, advice in SYMPTOMS:
            words = [f"{name} +{grown[name]}" for name in counters if grown.get(name, 0) > 0]
            if flaps and kind == "ib_link_flapped":
                words.append(f"{flaps} times down and up again while watched")
            if words:
                counted = Evidence(Observer.PORT, f"counters of {_name(node, port)}", job.now, listed(words))
                yield Finding(
                    kind, "warning", 0.9,
                    f"port {port.facts.device}/{port.facts.port} on {node.name}: {listed(words)}; {meaning}",
                    nodes=(node.name,), ports=(_name(node, port),), evidence=(counted, _state_proof(node, port)),
                    advice=advice,
                )  # fmt: skip


def _ports(job: Job) -> Iterator[tuple[Node, Port]]:
    """Every port with its node, in order."""
    for _, node in sorted(job.nodes.items()):
        for port in sorted(node.ports, key=lambda port: (port.facts.device, port.facts.port)):
            yield node, port


def _is_up(port: Port) -> bool:
    return port.facts.state == "ACTIVE" and port.facts.phys_state in ("LinkUp", "")  # ibv_devinfo tells no link


def _name(node: Node, port: Port) -> str:
    return f"{node.name}:{port.facts.device}/{port.facts.port}"


def _flaps(port: Port) -> int:
    """Times that it was seen to come back; once, too, when it went away now and had done so before by its counter."""
    states = list(itertools.pairwise(look.value.state == "ACTIVE" for look in port.changes))
    back = sum(after and not before for before, after in states)
    left = any(before and not after for before, after in states)
    return back or int(left and port.counters.get("link_downed", 0) > 1)


def _state_proof(node: Node, port: Port) -> Evidence:
    facts = port.facts
    text = f"state {facts.state}, physical state {facts.phys_state}, rate {facts.rate or 'unknown'} Gb/s"
    at = port.changes[-1].at if port.changes else None
    return Evidence(Observer.PORT, f"/sys/class/infiniband/{facts.device}/ports/{facts.port} on {node.name}", at, text)
