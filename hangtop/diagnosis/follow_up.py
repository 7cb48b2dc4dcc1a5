"""What another look could settle: ranks whose native frames would say what their Python frames leave open."""

from __future__ import annotations

from hangtop.diagnosis.case import open_case
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.standing import in_c_code

MOST = 4
"""Ranks for which a native dump is worth its half second of CPU and its pause."""

YOUNG_WAIT_S = 0.9
"""Ours: two looks of a short watch that show the same; cheap signals come once a second: they must be still twice."""


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


def ripens_in(job: Job) -> float | None:
    """Seconds until a wait that goes on now has lasted long enough to count; None where no such wait is seen.

    One that began while the job was watched is too young to be called a hang, and too old to be taken for the rhythm
    of a job that moves.
    """
    case = open_case(job)
    if case.hung or not case.scene.of("waiting"):
        return None
    seen = case.jam.held if case.jam is not None and case.jam.frozen else 0.0
    still = job.stood_still or 0.0
    if seen < YOUNG_WAIT_S and still < 2 * YOUNG_WAIT_S:
        return None
    return max(0.0, case.alarm_after - max(seen, still)) + YOUNG_WAIT_S / 4
