"""GPUs that messages name: by an index (``GPU 3``), or by an address on the PCI bus."""

from __future__ import annotations

import re
from collections.abc import Iterable

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.devices import gpu_at
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in

NAMELESS = "node"
"""The node of messages that name none."""
_INDEX = re.compile(r"\bGPU[ #]?(\d{1,2})\b(?!:|\.\d| (?:GPUs?|[GM]i?B)\b)")
_BUS = re.compile(r"\b([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\b")


def gpus_in(job: Job, events: Iterable[LogEvent]) -> tuple[str, ...]:
    """``node4:3``, or ``node4:0000:5e:00`` where nothing tells which GPU that is; of each event the first it names."""
    found: set[str] = set()
    for event in events:
        hosts = hosts_in(job, [event])
        name = hosts[0] if hosts else next(iter(job.nodes), NAMELESS) if len(job.nodes) == 1 else NAMELESS
        index = number_of(event, "gpu") if "gpu" in event.data else number_of(event, "device")
        bus = text_of(event, "bus_id") or next(iter(_BUS.findall(event.text[:1000])), "")
        node = job.nodes.get(name)
        if index is None and bus:
            at = gpu_at(node, bus) if node is not None else None
            found.add(f"{name}:{bus.lower() if at is None else at}")
            continue
        told = _INDEX.search(event.text[:1000]) if index is None else None
        if told is not None:
            index = int(told.group(1))
        if index is not None and 0 <= index < 256:
            found.add(f"{name}:{index}")
    return tuple(sorted(found))
