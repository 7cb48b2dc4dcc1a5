"""Every kind of sample that a node may send, and the fields that identify its subject."""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type

from collectors.samples import gpus, host, logs, ranks, stream

IDENTITY: Dict[Type[Any], Tuple[int, ...]] = {
    stream.SourceState: (0,), stream.Fault: (0, 1),
    ranks.RankProcess: (0,), ranks.RankPulse: (0,), ranks.Helper: (0,), ranks.IdleLauncher: (0,),
    gpus.GpuFacts: (0,), gpus.GpuSample: (0,), gpus.GpuProcesses: (), gpus.GpuFault: (0, 1),
    gpus.NvlinkCounters: (0, 1),
    host.PortFacts: (0, 1), host.Interface: (0,), host.Counters: (0, 1),
    logs.LogFile: (0, 2, 4), logs.CommProgress: (0, 1, 4, 5), logs.StepCount: (0,), logs.LogsRead: (),
    host.HostSample: (), host.Reading: (0, 1),
    ranks.InsidePulse: (0,), ranks.InsideResult: (0, 1),
}  # fmt: skip
"""Positions of the fields that identify a sample's subject; a later sample of the same subject replaces it."""
EVENTS = (
    stream.Hello, stream.Tick, ranks.ProcessGone, logs.LogLines, logs.LogEvent,
)  # fmt: skip
"""Kinds that are always sent: events, and samples whose source sends only new ones."""
SAMPLES: Tuple[Type[Any], ...] = (*EVENTS, *IDENTITY)
"""Every kind that a stream may carry; on the wire a kind is its class name."""
