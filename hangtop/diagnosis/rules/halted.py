"""A rank whose process the kernel does not let run: stopped, or in a call that no signal ends."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding, NextStep, next_step
from hangtop.diagnosis.phrasing import count, duration, ranks_on
from hangtop.diagnosis.tables.thresholds import STOOD_STILL_S
from hangtop.diagnosis.tables.wchan import is_frozen, sleep_at
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of


def stopped(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stopped: its process is in state T (a stop signal), t (a debugger) or frozen in every one of several looks.

    A tracer that holds it for some seconds is somebody else's look at its stacks. Needs the state from /proc, in looks
    or in dumps.
    """
    for status in job_status.of("stopped"):
        doing = status.activity
        if is_frozen(status.motion.wchan):
            yield _halted(
                job_status, "rank_stopped", status, 0.97, "is frozen by its control group", "",
                "No signal lets it go on: whoever froze it must thaw it (docker unpause, systemctl thaw, the batch "
                f"system that suspended the job). /proc/{status.pid or 'PID'}/cgroup names the group.",
            )  # fmt: skip
            continue
        state = status.motion.state or (doing.state if doing else "T")
        tracer = (doing.waiting_on if doing else "") or "a debugger"
        by = f"{tracer} traces it" if state == "t" else "somebody sent it a stop signal"
        how = f"Detach {tracer}" if state == "t" else f"kill -CONT {status.pid or 'PID'}"
        yield _halted(
            job_status, "rank_stopped", status, 0.97, f"is stopped (state {state})", f": {by}",
            f"{how} lets it go on. Find out who stopped it: job control of a shell, a debugger, a batch system that "
            "suspends jobs.",
            (next_step("K", "repair", "continue", *nodes_of((status,))),) if state == "T" else (),
        )  # fmt: skip


def uninterruptible(job_status: JobStatus) -> Iterator[Finding]:
    """rank_uninterruptible: state D in every look, or the one process that could not be looked into.

    Needs the state over two seconds or more; a wait on a local disk, which a big fsync may take, is told as waiting
    until its patience is over. Or a dump that was refused while those of its neighbours were not, in a job that stands
    still: one failure of py-spy says nothing while it moves.
    """
    advice = "Storage or a driver does not answer. Look at the kernel log of the node; drain the node if it does not "
    for status in job_status.of("uninterruptible"):
        if status.held < job_status.due(status):
            continue
        wchan = status.motion.wchan or (status.activity.wchan if status.activity else "")
        meaning = sleep_at(wchan).meaning
        hint = f": {wchan}" + (f", {meaning}" if meaning else "") if wchan else ""
        what = f"is in a kernel call that no signal ends (state D for {duration(status.held)}){hint}"
        yield _halted(job_status, "rank_uninterruptible", status, 0.93, what, "", f"{advice}come back.")
    still = job_status.job.stood_still
    moves = job_status.job.live and (job_status.job.motion.moving or (still is not None and still < STOOD_STILL_S))
    for status in () if moves else job_status.of("refused"):
        said = f": {status.activity.said}" if status.activity and status.activity.said else ""
        what = f"refuses every look, and it alone{said}"
        yield _halted(job_status, "rank_uninterruptible", status, 0.7, what, "", f"{advice}come back.")


def _halted(
    job_status: JobStatus, kind: str, status: RankStatus, weight: float, what: str, why: str, advice: str,
    steps: tuple[NextStep, ...] = (),
) -> Finding:  # fmt: skip
    graph = job_status.graph
    waiting = graph.waiters if graph is not None and graph.pattern == "held_up" else ()
    held_up = f" and holds up {count(len(waiting), 'other')}" if waiting else ""
    return Finding(
        kind,
        "critical",
        weight,
        f"{ranks_on([status.rank], [status.node])} {what}{held_up}{why}",
        ranks=(status.rank,),
        nodes=nodes_of((status,)),
        evidence=(*evidence_of(status), *(waiters_of(graph) if graph else ())),
        advice=advice,
        next=steps,
    )
