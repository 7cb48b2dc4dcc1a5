"""What another look could settle: ranks whose native frames would say what their Python frames leave open."""

from __future__ import annotations

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.waits.job_status import status_of_job
from hangtop.diagnosis.waits.native_frames import to_ask_natively

YOUNG_WAIT_S = 0.9
"""Ours: two looks of a short watch that show the same; cheap signals come once a second: they must be still twice."""


def native_wanted(job: Job) -> tuple[int, ...]:
    """Choose the ranks to dump with native frames: one of each point at which Python frames leave open what happens.

    Empty while the job moves, or where the Python frames tell all there is. Where the kernel says that a rank has slept
    for the whole patience, that the job stands still needs to be seen but once.
    """
    job_status = status_of_job(job)
    frozen = [one for one in job_status.statuses.values() if one.frozen is not False]
    asleep = any(one.motion.asleep >= job.alarm_after for one in frozen)
    stands = (job.stood_still or 0.0) >= (1 if asleep else 2) * YOUNG_WAIT_S and not job.motion.moving
    if not stands and not job_status.hung:
        return ()
    return to_ask_natively(frozen)
