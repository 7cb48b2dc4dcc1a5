"""Who holds a process that is traced: a debugger, which stays, or what reads stacks, and lets go of it again."""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.tables.thresholds import LOOKED_S, TRACED_S, UNKNOWN_TRACER_S

_LOOKS = ("py-spy", "pystack", "eu-stack", "gstack", "pstack", "perf")
"""Programs that read stacks, as the kernel calls them. One that was started by a descriptor is called by its number:
so is the py-spy that hangtop lends to a node."""


def held_by_a_tracer(doing: Activity | None) -> float:
    """Seconds for which a rank must be traced to be called stopped: on a loaded machine a look takes seconds."""
    if doing is None or doing.state != "t" or not doing.waiting_on:
        return UNKNOWN_TRACER_S
    name = doing.waiting_on.partition(" (pid ")[0]
    return LOOKED_S if name in _LOOKS or name.isdecimal() else TRACED_S
