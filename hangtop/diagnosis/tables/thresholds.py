"""Where a number becomes a finding. Each threshold names its source; "ours" was chosen here, and says why."""

from __future__ import annotations

# --- movement of a process ---------------------------------------------------------------------------------------

IDLE_CORES = 0.05
"""Ours: a rank that waits in gloo uses under 0.005 of a core, its watchdog and heartbeat threads included."""
SOME_CORES = 0.015
"""Ours: three times what the threads of a rank that waits use together."""
BUSY_CORES = 0.5
"""Ours: a thread that spins uses 1.0; half allows for a node that is twice oversubscribed."""
POLLS_PER_S, A_POLL = 300.0, 50e-6
"""Wakes a second, and seconds of CPU for each of them at the most, of a wait in C that looks again after every short
sleep: NCCL's init 14,000 times a second and torch's blocking wait 900 times, 5 to 12 microseconds each. No work is
that short."""
PREEMPTED_PER_S = 3.0
"""Ours: who sleeps, or looks at a flag ten times a second, is taken off a CPU once in many seconds at the most."""
STILL_SWITCHES_PER_S = 3.0
"""Ours: Python's queues poll every 5 s and a store every second; a training loop switches far oftener."""
QUIET_SWITCHES_PER_S = 0.05
"""Ours: the main thread of a rank that waits in gloo does not switch once in minutes; moving, once a collective."""
WORK_BYTES_PER_S = 65536.0
"""Ours: log lines and retries stay far below; a checkpoint or a data set comes in megabytes."""
HELPERS_KNOWN_S = 5.0
"""Seconds of watching a rank after which it is known what its processes do: a node looks at new ones every tick, and
those that compile come and go in a second or two."""
LATE_LOOKS = 2
"""Looks that a state must persist over before it means anything (rule of evidence 3)."""
UNINTERRUPTIBLE_S = 2.0
"""Ours: ordinary disk reads leave state D within milliseconds; a healthy node under write-back within a second."""

# --- waiting -----------------------------------------------------------------------------------------------------

LOOKS_SLACK_S = 1.0
LOOKS_SLACK_SHARE = 0.25
"""Ours: looks lie within the watch; a short watch loses up to a quarter at its ends, a long one a second."""
STOOD_STILL_S = 3.0
"""Ours: a pause shorter than this belongs to the rhythm of a job."""
LONG_WORK_S = 60.0
"""Least wait on a rank that visibly works (computes in forward or backward, compiles, saves, evaluates) before it may
be called stuck, however short the watch: the card's default patience."""
START_LONGEST_S = 120.0
"""Ours: a start in which nothing moves for so long is a hang; thousands of ranks come up within a minute."""
WORTH_SAYING_S = 2.0
"""Ours: a wait shorter than this is not even mentioned."""

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
"""Ours: what keeps watch over a job (stores, monitors, trackers) carries less on each of most of its ranks."""

START_S = 20.0
"""Ours: importing torch takes 1 to 5 s, from a busy shared file system ten times that; younger ranks may yet appear."""
SILENT_S = 8.0
"""Ours: a node sends every second, empty or not; this is a pause of many ticks, and shorter than a connection's end."""
