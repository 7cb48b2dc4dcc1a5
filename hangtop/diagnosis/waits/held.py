"""For how long a rank has been where it is."""

from __future__ import annotations

from math import inf

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS
from hangtop.diagnosis.waits.process_motion import Moves


def held_for(job: Job, state: str, doing: Activity | None, moves: Moves) -> float:
    """Seconds for which a rank in this state was seen to stand where it stands, or the whole job with it."""
    held = max(_seen_for(state, doing, moves), stood_still(job, doing))
    if doing is None or state not in ("waiting", "on_gpu"):
        return held
    since = _since_a_step(job, doing)
    # whether it spins its past tells, which is kept packed: of thousands of ranks it is read only where that matters
    return since if since < held and not moves.motion.blocked else held


def stood_still(job: Job, doing: Activity | None) -> float:
    """Seconds since the job last moved, when this dump was taken in that time: then it shows the whole of it."""
    if doing is None or job.stood_still is None or not job.live:
        return 0.0
    return job.stood_still if job.now - doing.at <= job.stood_still else 0.0


def _seen_for(state: str, doing: Activity | None, moves: Moves) -> float:
    if state in ("stopped", "uninterruptible"):
        return moves.motion.state_for
    if doing is None:
        return 0.0
    return max(0.0, doing.at - doing.since) if doing.looks >= LATE_LOOKS else 0.0


def _since_a_step(job: Job, doing: Activity) -> float:
    """Seconds since the last step that the job told: who spins at one place in every look may have waited many times.

    One rank logs what all have done together; of who does not spin its process tells whether it went on.
    """
    at = job.motion.last_step_at
    return inf if at is None or not job.live else max(0.0, doing.at - at)
