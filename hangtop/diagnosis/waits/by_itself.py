"""A rank that may go on of its own accord, by what was seen of it while the others waited."""

from __future__ import annotations

from hangtop.diagnosis.waits.answers import answered
from hangtop.diagnosis.waits.children import child_ready, polls_for_children
from hangtop.diagnosis.waits.own_threads import empties_a_queue, others_compute
from hangtop.diagnosis.waits.rank_status import RankStatus
from hangtop.diagnosis.waits.sleeping import in_one_sleep


def goes_on(status: RankStatus, held: float) -> bool:
    """Whether such a thing was seen, the others having waited so many seconds.

    Its sleep, threads or a process of its own that want a CPU, answers that come, a queue that a thread empties.
    """
    if in_one_sleep(status) or child_ready(status) or polls_for_children(status):
        return True
    return others_compute(status) or answered(status, held) or empties_a_queue(status)
