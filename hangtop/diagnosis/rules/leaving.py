"""Ranks that have left their program and do not end, with nobody left who waits for them in training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_on
from hangtop.diagnosis.tables.thresholds import LEAVING_S, LONG_WAIT_S, WORK_BYTES_PER_S
from hangtop.diagnosis.waits.children import children_told
from hangtop.diagnosis.waits.evidence import evidence_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

THREADS_TOLD = 3
TOGETHER = "destroy_process_group"
"""An end in which ranks may wait for each other."""


def stuck_at_exit(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stuck_at_exit: all ranks that are left shut down, and some of them do not come to an end.

    Needs stacks in two looks or more, or, from the kernel, since when the main thread has not run: 20 s at the least,
    five minutes where it waits for a process that may have much to send (a tracker's), or for a library to close. A
    rank that still writes, sends or computes, itself or by its own processes, is given all the time that it takes.
    Where some wait in destroy_process_group, and others are past that, the others are named.
    """
    job = job_status.job
    leaving = job_status.of("leaving")
    if not leaving or not job.live or len(leaving) < len(job_status.present) or not all(map(_rests, leaving)):
        return
    named = [one for one in leaving if one.activity and one.activity.op != TOGETHER] or leaving
    first, held = named[0], min(one.held for one in named)
    doing = first.activity
    assert doing is not None
    if held < max(LEAVING_S if doing.waits == "lock" else LONG_WAIT_S, job_status.alarm_after):
        return
    behind = children_told(first)
    told = "".join(f"; {words}" for words in (_threads(first), behind) if words)
    ended = len(job_status.of("gone", "missing"))
    yield Finding(
        "rank_stuck_at_exit", "critical", 0.85,
        f"{ranks_on((one.rank for one in named), (one.node for one in named))} "
        f"{'has' if len(named) == 1 else 'have'} finished and {'does' if len(named) == 1 else 'do'} not end, for "
        f"{duration(held)} now: {(doing.behind or doing.meaning).words.format(op=doing.op)}{told}",
        ranks=tuple(one.rank for one in named),
        nodes=nodes_of(named),
        evidence=(
            *evidence_of(first),
            *((Evidence("ranks", job.now, f"{count(ended, 'other')} ended"),) if ended else ()),
        ),
        advice="The training is over; what keeps the process is a thread that is no daemon, a queue that nobody "
        "empties, or a process that it started: end those before the program ends. To free the node, end the process.",
        next=(next_step("^n", "stacks", first.node or "NODE", "--rank", str(first.rank), "--native"),),
    )  # fmt: skip


def _rests(status: RankStatus) -> bool:
    """Neither it nor its processes do anything: they may have much to write or to send at the end."""
    doing, motion = status.activity, status.motion
    carries = (doing.carried or 0.0) if doing else 0.0
    return status.frozen is not False and not (
        status.busy or motion.moves_data or motion.helped or carries > WORK_BYTES_PER_S
    )


def _threads(status: RankStatus) -> str:
    """``its thread uploader is at send (sync.py:12)``: threads in the job's own code, of which it may wait for one."""
    doing = status.activity
    others: Sequence[str] = [f"{note.name} is at {note.where}" for note in doing.others if note.where] if doing else ()
    return f"its thread {listed(others, THREADS_TOLD)}" if others else ""
