"""Work of one rank's own that looks alike from outside: long, in libraries, or a loop that never ends."""

from __future__ import annotations

from itertools import pairwise

from hangtop.diagnosis.stacks.doing import HIDDEN
from hangtop.diagnosis.waits.process_motion import memory_moved
from hangtop.diagnosis.waits.rank_status import RankStatus

LOOKS = 4
"""Looks that must tell of variables."""


def goes_round(status: RankStatus) -> bool:
    """True for a rank that computes in one function and comes back to the same lines with the same variables.

    Work that gets on never does: something that it counts, or has left to do, is another each time. Only what is held
    in plain variables is known, so the node tells nothing where there may be more (:attr:`Activity.variables`). Who is
    met at one line alone may be in one call of C: there a look at native frames must have found the interpreter itself.
    """
    doing, looks = status.activity, status.readings
    if doing is None or status.state != "working" or status.load == "computing" or status.blocked:
        return False
    if not all(look.frame and look.waits == "nothing" and look.variables != HIDDEN for look in looks):
        return False
    told = [look for look in looks if look.variables]  # not each is read
    within = [look for look in status.interpreted if look.variables not in ("", HIDDEN)]
    if len(told) < LOOKS or len({look.frame[:2] for look in (*told, *within) if look.frame}) > 1:
        return False
    if within and len({look.variables for look in (*told, *within)}) == 1:
        return True
    places = [(look.frame and look.frame.line, look.variables) for look in told]
    left = [at for at, (one, other) in enumerate(pairwise(places), 1) if one != other]
    return any(places[at] in places[:at] for at in left)


def gets_on(status: RankStatus, waited: float) -> bool:
    """True for a rank that computes, and whose memory has moved since the others came to wait, or in libraries."""
    return status.motion.moves_memory or _in_libraries(status) or memory_moved(status.process, waited)


def _in_libraries(status: RankStatus) -> bool:
    """True for a rank that moves, and of which half of the looks met it within a library that its own code calls."""
    doing, looks = status.activity, status.readings
    inside = sum(look.in_library for look in looks)
    return doing is not None and bool(doing.moving) and 2 * inside >= len(looks) > 1
