"""The stream itself: who answers, its ticks, how its sources are."""

from __future__ import annotations

from collectors.samples.stream import Hello, SourceState, Tick
from hangtop.session.apply.devices import settle_rates
from hangtop.session.apply.dispatch import SampleContext, applies
from hangtop.session.apply.ranks import end_rank

CONFIRM_TICKS = 4
"""Ticks of a new stream after which a rank that it has not named is gone: its sources start apart."""


@applies(Hello)
def hello(here: SampleContext, sample: Hello) -> None:
    """A stream began: what was known of processes must be named again to count as alive."""
    node, before = here.node, here.node.hello
    if before is not None and before.boot_id and sample.boot_id and before.boot_id != sample.boot_id:
        here.note("was rebooted", "lost")
        for rank in node.ranks.values():
            end_rank(here, rank, here.at)
        for port in node.ports.values():
            port.counters = port.before = port.first = {}
    node.hello, node.ticks, node.logs_read = sample, 0, None
    node.sources, node.faults, node.launchers = {}, {}, {}
    node.unconfirmed = frozenset(pid for pid, rank in node.ranks.items() if rank.gone_at is None)
    for rank in node.ranks.values():
        rank.helpers, rank.cpu_wait = {}, None


@applies(Tick)
def tick(here: SampleContext, sample: Tick) -> None:
    """A flush is complete: what did not move in it stood still."""
    node = here.node
    node.tick = sample
    node.ticks += 1
    settle_rates(node, here.at)
    if node.unconfirmed and node.ticks >= CONFIRM_TICKS and node.answers("ranks"):
        for pid in node.unconfirmed & node.ranks.keys():
            end_rank(here, node.ranks[pid], here.at)
        node.unconfirmed = frozenset()


@applies(SourceState)
def source_state(here: SampleContext, sample: SourceState) -> None:
    """A source came into a new state."""
    before = here.node.sources.get(sample.source)
    here.node.sources = {**here.node.sources, sample.source: sample}
    if before is not None and before.state != sample.state:
        why = f": {sample.why}" if sample.why else ""
        here.note(f"{sample.source}: {before.state} → {sample.state}{why}", "back" if sample.state == "ok" else "late")
