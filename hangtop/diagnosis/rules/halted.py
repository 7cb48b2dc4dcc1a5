"""A rank whose process the kernel does not let run: stopped, or in a call that no signal ends."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.phrasing import count, duration, ranks_on
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, STOOD_STILL_S
from hangtop.diagnosis.tables.wchan import is_frozen, sleep_at
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of


def stopped(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stopped: its process is in state T (a stop signal), t (a debugger) or frozen in every one of several looks.

    A tracer that holds it for less than three seconds is somebody else's look at its stacks.

    Needs the state from /proc, in looks or in dumps.
    """
    for status in job_status.of("stopped"):
        if is_frozen(status.motion.wchan):
            yield _frozen(job_status, status)
            continue
        state = status.motion.state or (status.activity.state if status.activity else "T")
        tracer = (status.activity.waiting_on if status.activity else "") or "a debugger"
        by = f"{tracer} traces it" if state == "t" else "somebody sent it a stop signal"
        how = f"Detach {tracer}" if state == "t" else f"kill -CONT {status.pid or 'PID'}"
        yield Finding(
            "rank_stopped", "critical", 0.97,
            f"{_who(status)} is stopped (state {state}){_held_up(job_status)}: {by}",
            ranks=(status.rank,), nodes=nodes_of((status,)), evidence=_evidence(job_status, status),
            advice=f"{how} lets it go on. Find out who stopped it: job control of a shell, a debugger, a batch system "
            "that suspends jobs.",
            next=(next_step("K", "repair", "continue", *nodes_of((status,))),) if state == "T" else (),
        )  # fmt: skip


def _frozen(job_status: JobStatus, status: RankStatus) -> Finding:
    return Finding(
        "rank_stopped", "critical", 0.97,
        f"{_who(status)} is frozen by its control group{_held_up(job_status)}",
        ranks=(status.rank,), nodes=nodes_of((status,)), evidence=_evidence(job_status, status),
        advice="No signal lets it go on: whoever froze it must thaw it (docker unpause, systemctl thaw, the batch "
        f"system that suspended the job). /proc/{status.pid or 'PID'}/cgroup names the group.",
    )  # fmt: skip


def uninterruptible(job_status: JobStatus) -> Iterator[Finding]:
    """rank_uninterruptible: state D in every look, or the one process that could not be looked into.

    Needs the state over two seconds or more (a minute for a wait on a local disk, which a big fsync may take), or a
    dump that was refused while those of its neighbours were not, in a job that stands still: one failure of py-spy says
    nothing while it moves.
    """
    for status in job_status.of("uninterruptible"):
        wchan = status.motion.wchan or (status.activity.wchan if status.activity else "")
        sleep = sleep_at(wchan)
        if sleep.ordinary and status.held < LONG_WORK_S:
            continue
        hint = f": {wchan}" + (f", {sleep.meaning}" if sleep.meaning else "") if wchan else ""
        what = f"is in a kernel call that no signal ends (state D for {duration(status.held)}){hint}"
        yield _uninterruptible(job_status, status, what, 0.93)
    still = job_status.job.stood_still
    moves = job_status.job.live and (job_status.job.motion.moving or (still is not None and still < STOOD_STILL_S))
    for status in () if moves else job_status.of("refused"):
        said = f": {status.activity.said}" if status.activity and status.activity.said else ""
        yield _uninterruptible(job_status, status, f"refuses every look, and it alone{said}", 0.7)


def _uninterruptible(job_status: JobStatus, status: RankStatus, what: str, weight: float) -> Finding:
    return Finding(
        "rank_uninterruptible",
        "critical",
        weight,
        f"{_who(status)} {what}{_held_up(job_status)}",
        ranks=(status.rank,),
        nodes=nodes_of((status,)),
        evidence=_evidence(job_status, status),
        advice="Storage or a driver does not answer. Look at the kernel log of the node; drain the node if it does not "
        "come back.",
    )


def _who(status: RankStatus) -> str:
    return ranks_on([status.rank], [status.node])


def _held_up(job_status: JobStatus) -> str:
    waiting = job_status.graph.waiters if job_status.graph and job_status.graph.pattern == "held_up" else ()
    return f" and holds up {count(len(waiting), 'other')}" if waiting else ""


def _evidence(job_status: JobStatus, status: RankStatus) -> tuple[Evidence, ...]:
    return (*evidence_of(status), *(waiters_of(job_status.graph) if job_status.graph else ()))
