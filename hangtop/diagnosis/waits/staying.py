"""Ranks that stay where they are, whatever CPU their process uses: that may be another thread's.

Such a thread writes a flight recorder dump that was asked for, for which it reads libraries, or beats a heart.
"""

from __future__ import annotations

from hangtop.diagnosis.tables.thresholds import IN_ONE_CALL_S
from hangtop.diagnosis.waits.rank_status import RankStatus


def stays(status: RankStatus) -> bool:
    """True for a rank that no look met elsewhere, and that does not compute most of the time."""
    return status.activity is not None and not status.activity.moving and not status.busy


def in_one_call(status: RankStatus) -> bool:
    """True where its main thread has slept in one call on a file for long, and has not run once.

    In state D it may be within one big read of a disk.
    """
    doing = status.activity
    outside = doing is not None and doing.waits == "storage" and doing.waiting_on.startswith("/")
    return outside and status.motion.state != "D" and status.motion.unrun >= IN_ONE_CALL_S
