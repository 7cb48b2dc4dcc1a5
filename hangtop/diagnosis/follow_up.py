"""What another look could settle: ranks whose native frames would say what their Python frames leave open."""

from __future__ import annotations

from hangtop.diagnosis.case import open_case
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.scene import in_c_code

MOST = 4
"""Ranks for which a native dump is worth its half second of CPU and its pause."""


def native_wanted(job: Job) -> tuple[int, ...]:
    """Choose the ranks to dump with native frames: culprits first, then one rank of each site of those who wait.

    Empty where nobody waits, or where the Python frames tell all there is.
    """
    case = open_case(job)
    jam = case.jam
    if jam is None:
        # nobody is seen to wait; sleepers in C code may do so
        sleepers = [one for one in case.scene.of("working") if in_c_code(one) and one.frozen]
        return tuple(one.rank for one in sleepers)[:MOST]
    if not case.hung:
        return ()
    wanted = [s.rank for s in jam.culprits if s.activity is not None and s.activity.native_would_tell]
    if jam.shape != "held_up":
        firsts = [site.members[0] for site in jam.sites]
        wanted = [s.rank for s in firsts if s.activity is not None and s.activity.native_would_tell]
    return tuple(dict.fromkeys(wanted))[:MOST]
