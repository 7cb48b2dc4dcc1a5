"""What the kernel says of network adapters: drivers that gave up, links that went away."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.devices import event_line, events_on
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of

_FAST = re.compile(r"mlx\d_|\bib|rdma|bnxt|irdma|efa|\boper(?:ational)? stat")
"""Adapters of the fabric, ports of switches; links of others come and go with containers and management networks."""

LONG_UP_S = 300
"""Seconds after the kernel's start from which on a link that goes down was up before."""


def links(job: Job) -> Iterator[Finding]:
    """ib_port_down and ib_link_flapped by the kernel's lines about the links of the fabric's adapters.

    Needs a link that was up before, by a line or by the time since the kernel's start: at boot, and of ports without a
    cable, "down" means nothing. While the job is
    watched, the ports themselves tell more.
    """
    if job.live:
        return
    for name in sorted(job.nodes):
        seen: dict[str, list[LogEvent]] = defaultdict(list)
        for event in events_on(job, job.nodes[name], "kernel.link"):
            device = text_of(event, "device")
            if isinstance(event.data.get("up"), bool) and _FAST.search(f"{device} {event.text}"):
                seen[device].append(event)
        for device, events in sorted(seen.items()):
            first = next((at for at, event in enumerate(events) if event.data["up"] or _was_up(event)), len(events))
            downs = [event for event in events[first:] if not event.data["up"]]
            if not downs:
                continue
            gone = not events[-1].data["up"]
            yield Finding(
                "ib_port_down" if gone else "ib_link_flapped", "critical" if gone else "warning", 0.75,
                f"{name}: the link of {device} went down" + ("" if gone else f" {len(downs)} times and came back"),
                nodes=(name,), evidence=tuple(event_line(event) for event in downs[:4]),
                advice="Look at the cable, the module and the switch's port; the ranks of this node lose their peers "
                "meanwhile.",
            )  # fmt: skip


def _was_up(event: LogEvent) -> bool:
    """Whether a link that goes down was up: the switch says so, or it is long after boot."""
    return " from up to " in event.text or (number_of(event, "uptime") or 0) >= LONG_UP_S
