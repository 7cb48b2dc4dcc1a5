"""A rank that sleeps for a time which it has chosen: how long that will last yet, where its call tells."""

from __future__ import annotations

import re

from hangtop.diagnosis.tables.thresholds import A_LONG_SLEEP_S, FROM_OUTSIDE_S, LONG_WORK_S, ONE_SLEEP_S
from hangtop.diagnosis.waits.process_motion import works_between
from hangtop.diagnosis.waits.rank_status import RankStatus

_LEFT = re.compile(r"its clock for ([0-9]{1,10}) s more")
"""As :mod:`collectors.node.processes.sleeps` tells it."""
_WAKES_S = 3.0
"""Ours: so long it may take a rank to go on when its sleep is over, on a loaded node."""


def naps(status: RankStatus) -> bool:
    """True for a rank that every look met in a sleep, and that computes in between."""
    asleep = status.activity is not None and status.activity.kind == "sleep"
    return asleep and status.state == "working" and works_between(status.motion)


def in_one_sleep(status: RankStatus) -> bool:
    """True for a rank that sleeps for a time which it has chosen, and has not woken for a while: it will by itself.

    Or it has at this very moment, and waits for a processor.
    """
    doing, moved = status.activity, status.motion
    slept = moved.unrun if moved.state == "R" else moved.asleep
    return doing is not None and doing.waits == "time" and slept >= A_LONG_SLEEP_S


def left_of_sleep(status: RankStatus) -> float | None:
    """Seconds of its sleep that were left at the newest look; None where nothing tells."""
    doing = status.activity
    return sleep_left(doing.waiting_on) if doing is not None and doing.waits == "time" else None


def sleep_left(waiting_on: str) -> float | None:
    """Seconds that are left of a sleep, by what its call waits on; None where that is no clock."""
    found = _LEFT.fullmatch(waiting_on)
    return None if found is None else float(found[1])


def sleeps_for_good(status: RankStatus) -> bool:
    """True where it will sleep for longer than a pause between two attempts, or a throttle, may last."""
    return (left_of_sleep(status) or 0.0) > LONG_WORK_S


def sleep_due(status: RankStatus, waited: float, now: float) -> float:
    """Seconds that the others, who have ``waited`` so long, may wait: until it wakes, and a minute at the most."""
    left = left_of_sleep(status)
    if left is None or status.activity is None:
        return ONE_SLEEP_S
    if sleeps_for_good(status):
        return FROM_OUTSIDE_S
    return min(waited + max(0.0, left - (now - status.activity.at)) + _WAKES_S, LONG_WORK_S)
