"""HCA ports, interfaces and TCP: counters into rates and growth, resets included."""

from __future__ import annotations

from sys import intern

from collectors.samples.fabric import Interface, InterfaceCounters, PortCounters, PortFacts, TcpCounters
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import NetworkInterface, Node, Port
from hangtop.session.apply.dispatch import SampleContext, applies

CHANGES = 16
"""States of a port that are remembered."""
SETTLED = 2.5
"""Seconds without news of a counter after which it stood still: changes alone are sent, at most once a tick or so."""
SETTLED_BY_TOOL = 8.0
"""The same of a port for whose counters ``perfquery`` is run: that is done every five seconds."""


@applies(PortFacts)
def port(here: SampleContext, sample: PortFacts) -> None:
    """A port's state."""
    name = intern(f"{sample.device}/{sample.port}")
    known = here.node.ports.get(name)
    if known is None:
        here.node.ports[name] = known = Port(sample, at=here.at)
        here.node.roster += 1
    else:
        before = (known.facts.state, known.facts.phys_state)
        after = (sample.state, sample.phys_state)
        if before != after:
            here.note(f"port {name}: {' '.join(before)} → {' '.join(after)}", "port")
        elif known.facts == sample:
            return
        known.facts = sample
    known.changes = (*known.changes, Look(here.at, sample))[-CHANGES:]


def grown(first: int, before: int, now: int) -> tuple[int, int]:
    """Take a counter's next value: its new ``first`` and how much it grew since ``before``.

    A value under the last one means that the counter began again from zero: what it counted before is kept by moving
    ``first``, so that ``now - first`` stays the growth since watching began.
    """
    return (first, now - before) if now >= before else (first - before, now)


@applies(PortCounters)
def port_counters(here: SampleContext, sample: PortCounters) -> None:
    """Counters of one port that changed."""
    port = here.node.ports.get(f"{sample.device}/{sample.port}")
    if port is None:
        return
    if port.source != sample.source:
        # Another tool counts with another width: growth is only meaningful within one.
        port.source, port.first, port.counters = intern(sample.source), {}, {}
    before = port.counters
    now = {**before, **sample.values}
    first = {name: port.first.get(name, value) for name, value in now.items()}
    for name in sample.values:
        if now[name] < before.get(name, 0):
            first[name], _ = grown(first[name], before[name], now[name])
    port.first = first
    port.counters, port.before = now, before
    port.at, port.span = here.at, here.at - port.at


@applies(Interface)
def interface(here: SampleContext, sample: Interface) -> None:
    """A network interface."""
    known = here.node.interfaces.get(sample.name)
    if known is None:
        here.node.interfaces[sample.name] = NetworkInterface(sample, here.at)
        here.node.roster += 1
        return
    if known.facts.up != sample.up:
        here.note(f"interface {sample.name} is {'up' if sample.up else 'down'}", "port")
    known.facts = sample


@applies(InterfaceCounters)
def interface_counters(here: SampleContext, sample: InterfaceCounters) -> None:
    """Traffic and losses of an interface."""
    known = here.node.interfaces.get(sample.name)
    if known is None:
        return
    before, span = known.counters, here.at - known.at
    if before is not None and span > 0:
        known.received_per_s = grown(0, before.received, sample.received)[1] / span
        known.sent_per_s = grown(0, before.sent, sample.sent)[1] / span
        known.drops_grown += grown(0, before.receive_drops, sample.receive_drops)[1]
        known.drops_grown += grown(0, before.send_drops, sample.send_drops)[1]
    known.counters, known.at = sample, here.at


@applies(TcpCounters)
def tcp(here: SampleContext, sample: TcpCounters) -> None:
    """TCP segments, and those sent again."""
    before = here.node.tcp
    if before is not None and here.at > before.at:
        span = here.at - before.at
        here.node.segments_per_s = grown(0, before.value.segments_sent, sample.segments_sent)[1] / span
        here.node.retransmitted_per_s = grown(0, before.value.retransmitted, sample.retransmitted)[1] / span
    here.node.tcp = Look(here.at, sample)


def settle_rates(node: Node, at: float) -> None:
    """Counters that were not sent for a while have not moved: their rates are zero, as of now."""
    for port in node.ports.values():
        settled = SETTLED_BY_TOOL if port.source.startswith("perfquery") else SETTLED
        if port.counters and at - port.at > settled:
            port.before, port.span, port.at = port.counters, at - port.at, at
    for known in node.interfaces.values():
        if known.counters is not None and at - known.at > SETTLED:
            known.received_per_s = known.sent_per_s = 0.0
            known.at = at
    if node.tcp is not None and at - node.tcp.at > SETTLED:
        node.segments_per_s = node.retransmitted_per_s = 0.0
        node.tcp = Look(at, node.tcp.value)
