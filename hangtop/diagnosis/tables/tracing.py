"""From where figures of profiler traces become a finding; "ours" was chosen here, and says why."""

from __future__ import annotations

TRACE_EXPOSED_SHARE = 0.3
"""Ours: exposed communication over the wall time. Well tuned jobs report 5 to 15 %; at 30 % overlap is worth work."""
TRACE_DATA_SHARE = 0.3
"""Ours: waiting for a data loader alone, over the wall time; a loader that keeps up shows next to none."""
TRACE_LATE_SHARE = 0.6
"""Ours: share of the collectives with a late rank to which a straggler is the last to come."""
TRACE_HELD_SHARE = 0.05
"""Ours: time for which the others wait for it, over the wall time; less is not worth a look."""
TRACE_MEETINGS = 5
"""Ours: fewer collectives cannot tell one rank from chance; what they prove is tested against chance besides."""
