"""InfiniBand and RoCE ports: down, flapping, or with error counters that grow."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator
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
    Symptom("ib_symbol_errors", ("symbol_error",), "bits arrive broken: the physical layer",
            "Reseat or replace cable and transceiver."),
    Symptom("ib_receive_errors", ("port_rcv_errors", "port_rcv_remote_physical_errors"),
            "packets arrive broken: look at the far end's port",
            "Look at the counters of the switch port on the other side of this cable."),
    Symptom("ib_transmit_discards", ("port_xmit_discards",),
            "packets are thrown away unsent: congestion, or a peer that is down",
            "Look at the switch: routing, congestion, a slow receiver."),
    Symptom("ib_buffer_overrun", ("excessive_buffer_overrun_errors", "local_link_integrity_errors"),
            "flow control fails", "Compare MTU and firmware of both ends."),
)  # fmt: skip
"""Counters of the kernel's sysfs ABI (``sysfs-class-infiniband``): growth of any while the job runs is a finding.
CNP, ECN and port_xmit_wait are pressure, not errors, and in no row of this table."""
LOSSES = (
    "packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err",
    "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
)  # fmt: skip
"""hw_counters of mlx5 that stand for lost or repeated packets (NVIDIA's "understanding mlx5 counters")."""
SENDER_SAW = ("packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err", "roce_adp_retrans")
RECEIVER_SAW = ("out_of_sequence",)
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
        hint = HINTS.get(facts.phys_state, "") if facts.state != "INIT" else ": no subnet manager has set it up"
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
    """ib_link_flapped, ib_symbol_errors, ib_receive_errors, ib_transmit_discards, ib_buffer_overrun.

    Any growth of a counter while it was watched counts, and so does a port that went down and came back.
    """
    for node, port in _ports(job):
        for symptom in SYMPTOMS:
            flaps = _flaps(port) if symptom.kind == "ib_link_flapped" else 0
            came_back = [f"{flaps} times down and up again while watched"] if flaps else []
            if words := listed([*filter(None, [_growth(port, symptom.counters)]), *came_back]):
                counted = Evidence(Observer.PORT, f"counters of {_name(node, port)}", job.now, words)
                yield Finding(
                    symptom.kind, "warning", 0.9,
                    f"port {port.facts.device}/{port.facts.port} on {node.name}: {words}; {symptom.meaning}",
                    nodes=(node.name,), ports=(_name(node, port),), evidence=(counted, _state_proof(node, port)),
                    advice=symptom.advice,
                )  # fmt: skip


def roce_retransmits(job: Job) -> Iterator[Finding]:
    """roce_retransmits: counters of lost and repeated packets grow; both ends together tell the direction.

    packet_seq_err at A with out_of_sequence at B means loss on the way from A to B.
    """
    lossy = [(node, port) for node, port in _ports(job) if _growth(port, LOSSES)]
    if not lossy:
        return
    senders = sorted({node.name for node, port in lossy if _growth(port, SENDER_SAW)})
    receivers = sorted({node.name for node, port in lossy if _growth(port, RECEIVER_SAW)})
    one_way = len(senders) == 1 and len(receivers) == 1 and senders != receivers
    path = f" on the way from {senders[0]} to {receivers[0]}" if one_way else ""
    culprits = receivers if len(receivers) == 1 else senders if len(senders) == 1 else []
    named = {*culprits, *(senders if one_way else ())}
    blamed = [(node, port) for node, port in lossy if not culprits or node.name in named]
    yield Finding(
        "roce_retransmits", "warning", 0.85 if path else 0.75,
        f"packets are lost and sent again{path}: "
        f"{listed([f'{node.name} {_growth(port, LOSSES)}' for node, port in blamed], most=3)}",
        nodes=tuple(sorted({node.name for node, _ in blamed})),
        ports=tuple(sorted(_name(node, port) for node, port in blamed)),
        evidence=tuple(
            Evidence(
                Observer.PORT, f"hw_counters of {_name(node, port)}", job.now, _growth(port, LOSSES)
            ) for node, port in lossy[:6]
        ),
        advice="Check PFC and ECN settings along that path, then cable and switch port; one peer that all time out on "
        "is the faulty one.",
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


def _growth(port: Port, counters: Collection[str]) -> str:
    """``symbol_error +12 and link_downed +1``: what of these grew while it was watched; empty for nothing."""
    moved = port.grown
    return listed([f"{name} +{moved[name]}" for name in counters if moved.get(name, 0) > 0])


def _state_proof(node: Node, port: Port) -> Evidence:
    facts = port.facts
    rate = "unknown" if facts.rate is None else f"{facts.rate:g} Gb/s"
    text = f"state {facts.state}, physical state {facts.phys_state}, rate {rate}"
    at = port.changes[-1].at if port.changes else None
    return Evidence(Observer.PORT, f"/sys/class/infiniband/{facts.device}/ports/{facts.port} on {node.name}", at, text)
