"""Every kind of sample that a node may send."""

from __future__ import annotations

from collectors.samples.fabric import Interface, InterfaceCounters, PortCounters, PortFacts, TcpCounters
from collectors.samples.gpus import (
    FabricService,
    GpuFabric,
    GpuFacts,
    GpuFault,
    GpuProcesses,
    GpuSample,
    NvlinkCounters,
    Topology,
)
from collectors.samples.host import HostFacts, HostSample, Reading
from collectors.samples.inside import InsidePulse, InsideResult
from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines, LogsRead, StepCount
from collectors.samples.ranks import CpuWait, Helper, HelperGone, IdleLauncher, RankGone, RankProcess, RankPulse
from collectors.samples.stream import Fault, Hello, SourceState, Tick

SAMPLES = (
    Hello, Tick, SourceState, Fault,
    RankProcess, RankPulse, RankGone, Helper, HelperGone, IdleLauncher, CpuWait,
    GpuFacts, GpuSample, GpuProcesses, GpuFault, NvlinkCounters, GpuFabric, FabricService, Topology,
    PortFacts, PortCounters, Interface, InterfaceCounters, TcpCounters,
    LogFile, LogLines, LogEvent, CommProgress, StepCount, LogsRead,
    HostFacts, HostSample, Reading,
    InsidePulse, InsideResult,
)  # fmt: skip
"""Every kind that a stream may carry, by class; the wire uses the class's name."""
