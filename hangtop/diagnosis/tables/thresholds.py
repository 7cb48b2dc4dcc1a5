"""Thresholds from which a number is a finding. Each names its source; "ours" was chosen here, with the reason."""

from __future__ import annotations

# --- movement of a process ---------------------------------------------------------------------------------------

IDLE_CORES = 0.05
"""Ours: a rank that waits in gloo uses under 0.005 of a core, including its watchdog and heartbeat threads."""
BUSY_CORES = 0.5
"""Ours: a thread that spins uses 1.0; half allows for a node that is twice oversubscribed."""
LATE_SAMPLES = 2
"""Samples over which a state must persist before it means anything."""

# --- waiting -----------------------------------------------------------------------------------------------------

STOOD_STILL_S = 3.0
"""Ours: a shorter pause belongs to the rhythm of a job."""
LONG_WORK_S = 60.0
"""Least wait before a rank that may be computing (one with an unreadable stack, or whose GPU computes) may be called
stuck or standing, however short the watch."""
START_LONGEST_S = 120.0
"""Ours: a start in which nothing moves for so long is a hang; thousands of ranks come up within a minute."""
WORTH_SAYING_S = 2.0
"""Ours: a shorter wait is not reported."""
START_S = 20.0
"""Ours: importing torch takes 1 to 5 s, from a busy shared file system ten times that; ranks may still appear."""
SILENT_S = 8.0
"""Ours: a node sends a tick every second; this is many ticks, and shorter than it takes to lose a connection."""

# --- GPUs --------------------------------------------------------------------------------------------------------

IDLE_UTILIZATION = 5
"""Per cent."""
BAD_EVENT_REASONS = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of clocks_event_reasons.active that mean trouble (NVML's nvmlClocksEventReasons; the same set that gpud and
Azure's health checks use). 0x4, the software power cap, is normal under load."""
BAD_BITS = sum(BAD_EVENT_REASONS)
