"""Thresholds from which a number is a finding. Each names its source; "ours" was chosen here, with the reason."""

from __future__ import annotations

# --- movement of a process ---------------------------------------------------------------------------------------

IDLE_CORES = 0.05
"""Ours: a rank that waits in gloo uses under 0.005 of a core, including its watchdog and heartbeat threads."""
SOME_CORES = 0.015
"""Ours: three times what the threads of a rank that waits use together."""
BUSY_CORES = 0.5
"""Ours: a thread that spins uses 1.0; half allows for a node that is twice oversubscribed."""
POLLS_PER_S, A_POLL = 300.0, 50e-6
"""Wakes per second, and most CPU seconds for each, of a wait in C that polls with short sleeps: NCCL's init wakes
14,000 times a second and torch's blocking wait 900 times, for 5 to 12 microseconds each. No work is that short."""
PREEMPTED_PER_S = 3.0
"""Ours: a thread that sleeps, or polls a flag ten times a second, is preempted once in many seconds at most."""
STILL_SWITCHES_PER_S = 3.0
"""Ours: Python's queues poll every 5 s and a store every second; a training loop switches far more often."""
QUIET_SWITCHES_PER_S = 0.05
"""Ours: the main thread of a rank that waits in gloo does not switch for minutes; moving, once a collective."""
WORK_BYTES_PER_S = 65536.0
"""Ours: log lines and retries stay far below; a checkpoint or a data set comes in megabytes."""
HELPERS_KNOWN_S = 5.0
"""Seconds of watching a rank after which its child processes are known: a node looks for new ones every tick, and
compilers live for a second or two."""
LATE_SAMPLES = 2
"""Samples over which a state must persist before it means anything."""
UNINTERRUPTIBLE_S = 2.0
"""Ours: ordinary disk reads leave state D within milliseconds; a healthy node under write-back within a second."""

# --- waiting -----------------------------------------------------------------------------------------------------

SAMPLES_SLACK_S = 1.0
SAMPLES_SLACK_SHARE = 0.25
"""Ours: samples span less than the watch: a short watch loses up to a quarter at its ends, a long one a second."""
STOOD_STILL_S = 3.0
"""Ours: a shorter pause belongs to the rhythm of a job."""
LONG_WORK_S = 60.0
"""Least wait before a rank that may be computing (one with an unreadable stack, or whose GPU computes) may be called
stuck or standing, however short the watch."""
START_LONGEST_S = 120.0
"""Ours: a start in which nothing moves for so long is a hang; thousands of ranks come up within a minute."""
WORTH_SAYING_S = 2.0
"""Ours: a shorter wait is not reported."""

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

TRICKLE_BYTES_PER_S = 16e3
"""Ours: stores, monitors and trackers carry less than this on each of most of their ranks."""

START_S = 20.0
"""Ours: importing torch takes 1 to 5 s, from a busy shared file system ten times that; ranks may still appear."""
SILENT_S = 8.0
"""Ours: a node sends a tick every second; this is many ticks, and shorter than it takes to lose a connection."""
