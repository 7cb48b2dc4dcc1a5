"""Ranks wait for a rank that does not wait: which one, where it is, and whether that is a fault.

Two claims. *Who is waited for* follows from the waiters' stacks and is reported at once (``waiting``), with what that
rank does. *Whether that is a fault* depends on its wake set (:mod:`hangtop.diagnosis.waits.wake_set`): it is one of
``rank_stuck_in_data``, ``rank_stuck_in_checkpoint``, ``rank_stuck_on_lock`` and ``rank_stuck_in_code`` once it makes no
progress and its patience is over. A process that the kernel does not let run is a fault by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.finding import Finding, next_step, of_ranks
from hangtop.diagnosis.phrasing import count, duration, ranks_on, waiters_text
from hangtop.diagnosis.tables.thresholds import LATE_SAMPLES, WORTH_SAYING_S
from hangtop.diagnosis.tables.wchan import is_frozen, sleep_at
from hangtop.diagnosis.waits.evidence import children_text, evidence_of, waiters_of, watch_of, weight_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, nodes_of

COMING_UP = frozenset({"init", "store"})
"""Kinds of waits before the training begins."""
PLACES_TOLD = 3
"""Most places shown of ranks that are waited for."""
DATA, CHECKPOINT, LOCK, CODE = (
    "rank_stuck_in_data", "rank_stuck_in_checkpoint", "rank_stuck_on_lock", "rank_stuck_in_code",
)  # fmt: skip
ADVICE = {
    DATA: "Look at the storage behind the data and at this rank's workers; num_workers=0 shows the real error.",
    CHECKPOINT: "Check the file system that it writes to. If one rank saves alone, raise that group's time-out.",
    LOCK: "Find the holder of the lock: a thread, a child, for a file also another node (lslocks). A lock held while a "
    "worker was forked is never released there; a C extension may keep the GIL: dump native frames.",
    CODE: "Look at this frame: all other ranks wait for it to end.",
}
CHILDREN = "Look at the child processes of this rank: it continues when one of them ends or answers."
NOT_LAUNCHED = "It has not launched what the others wait in: look at its GPU (Xid lines, power) and at its stack."
UNDECIDED = "No fault yet: the rank works, or may still get what it waits for. It counts as hung once none of it moves."
MOST_ARE_BLAMED = 0.55
"""Weight if most of the job is waited for: ranks that are seen only in calls of C may wait themselves."""


def held_up(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_on_lock, rank_stuck_in_code; before that waiting.

    A rank that is waited for is stuck once the wait has lasted as long as :meth:`JobStatus.due`.
    """
    graph = job_status.graph
    if graph.pattern != "held_up":
        return
    at_fault = [culprit for culprit in graph.culprits if graph.held >= job_status.due(culprit)]
    alive = [c for c in graph.culprits if c.state in ("working", "on_gpu") and c.read]
    if at_fault and not coming_up(job_status):
        groups: dict[tuple[str, str], list[RankStatus]] = defaultdict(list)
        for culprit in alive:
            groups[_kind_of(culprit), culprit.where].append(culprit)
        for (kind, _), members in groups.items():
            if any(member in at_fault for member in members):
                yield _stuck(job_status, graph, kind, members)
    unread = {"gone", "missing", "stopped", "leaving", "unseen"}
    if not at_fault and graph.held >= WORTH_SAYING_S and not any(c.state in unread for c in graph.culprits):
        yield _waiting(job_status, graph)


def _kind_of(status: RankStatus) -> str:
    """The kind of being stuck, by the rank's innermost call, then by the purpose of that call.

    A rank that sleeps in C code below its own line most likely wants a lock: ``with lock:`` has no frame of its own.
    """
    doing = status.activity
    assert doing is not None
    wants_lock = doing.kind == "lock" and doing.waits != "helper"
    in_c_code = status.in_c_code or bool(_gil_owner(status) and doing.kind not in ("data", "checkpoint"))
    if wants_lock or (in_c_code and not doing.context & {"data", "checkpoint"}):
        return LOCK
    if doing.kind == "checkpoint" or "checkpoint" in doing.context:
        return CHECKPOINT
    return DATA if doing.kind == "data" or "data" in doing.context else CODE


def _gil_owner(status: RankStatus) -> str:
    """The thread that holds the GIL in every sample of a process that uses no CPU; empty without one.

    It blocks in native code: Python code releases the GIL before it blocks.
    """
    owners = {sample.gil for sample in status.readings}
    return owners.pop() if len(status.readings) >= LATE_SAMPLES and len(owners) == 1 and status.motion.blocked else ""


def _stuck(job_status: JobStatus, graph: WaitGraph, kind: str, members: Sequence[RankStatus]) -> Finding:
    first = members[0]
    gil = f"; thread {owner} keeps the GIL, so no Python thread can run" if (owner := _gil_owner(first)) else ""
    by_child = first.activity is not None and first.activity.waits == "helper" and kind in (LOCK, CODE)
    return of_ranks(
        kind, weight_of(job_status, graph, members), [member.rank for member in members], nodes_of(members),
        f"holds up {count(len(graph.waiters), 'other')}: {_doing(job_status, first)}{gil}",
        (*evidence_of(first), *waiters_of(graph), watch_of(graph, len(first.readings))),
        NOT_LAUNCHED if first.state == "on_gpu" else CHILDREN if by_child else ADVICE[kind],
        next_step("", "stacks", first.node or "NODE", "--rank", str(first.rank), "--native"),
    )  # fmt: skip


def _waiting(job_status: JobStatus, graph: WaitGraph) -> Finding:
    """Which ranks wait for which, and how long; from half of the time-out on, also when the watchdog ends the job."""
    culprits, alike = graph.culprits, defaultdict(list)
    for member in culprits:
        alike[member.where].append(member)
    places = []
    for members in sorted(alike.values(), key=len, reverse=True)[:PLACES_TOLD]:
        who, doing = ranks_on((status.rank for status in members), nodes_of(members)), _doing(job_status, members[0])
        places.append(f"{who}: {doing}" if doing else who)
    held, timeout = job_status.lasted(graph.held), job_status.job.collective_timeout or 0.0
    ends = f"; the watchdog ends the job in {duration(timeout - held)}" if 0.5 * timeout <= held < timeout else ""
    return Finding(
        "waiting", "warning", 0.8 if len(culprits) <= len(graph.waiters) else MOST_ARE_BLAMED,
        f"{waiters_text(graph.waiters, 'rank')} {duration(held)} for {'; '.join(places)}{ends}",
        ranks=tuple(member.rank for member in culprits), nodes=nodes_of(culprits),
        evidence=(*(line for status in culprits[:PLACES_TOLD] for line in evidence_of(status)), *waiters_of(graph)),
        advice=UNDECIDED, next=(next_step("d", "stacks", culprits[0].node or "NODE", "--rank", str(culprits[0].rank)),),
    )  # fmt: skip


def _doing(job_status: JobStatus, status: RankStatus) -> str:
    """``tune_kernels (job2.py:61), 1.0 core busy``; a child process's frame is marked as its own."""
    doing, figures, child = status.activity, job_status.wake_set(status).figures, children_text(status)
    if doing is not None and doing.helper_pid is not None and doing.where:
        return f"{figures or doing.label}: its process {doing.helper_pid} is in {doing.where}"
    return "; ".join(filter(None, (", ".join(dict.fromkeys(filter(None, (status.where, figures)))), child)))


def coming_up(job_status: JobStatus) -> bool:
    """Whether at least half of the waiting ranks wait to start: that is init_hang, whichever rank is missing."""
    waiting = job_status.of(*WAITS)
    coming = [status for status in waiting if status.activity and status.activity.kind in COMING_UP]
    return bool(coming) and not job_status.trained and len(coming) * 2 >= len(waiting)


# --- processes that cannot run -----------------------------------------------------------------------------------

CONTINUE = "kill -CONT {pid} resumes it. Find out what stopped it: a shell, a batch system."
DETACH = "Detach the tracer from process {pid}."
THAW = "Thaw it where it was frozen (docker unpause, systemctl thaw): see /proc/{pid}/cgroup."
KERNEL = "Storage or a driver does not answer: look at the node's kernel log; drain it if it does not come back."


def halted(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stopped: state T (a stop signal), t (a debugger) or frozen by its control group, over several samples.

    rank_uninterruptible: state D in every sample.
    """
    graph = job_status.graph
    holds_up = f" and holds up {count(len(graph.waiters), 'other')}" if graph.pattern == "held_up" else ""
    for status in job_status.of("stopped", "uninterruptible"):
        doing, moved = status.activity, status.motion
        in_d = status.state == "uninterruptible"
        state, wchan = moved.state or (doing.state if doing else "T"), moved.wchan or (doing.wchan if doing else "")
        if in_d and status.held < job_status.due(status):
            continue
        if in_d:
            what, advice = f"is in a kernel call that no signal ends (state D for {duration(status.held)})", KERNEL
            why = ", ".join(filter(None, (wchan, sleep_at(wchan).meaning)))
        elif is_frozen(wchan):
            what, why, advice = "is frozen", "by its control group", THAW
        elif state == "t":
            tracer = (doing.waiting_on if doing else "") or "a debugger"
            what, why, advice = "is stopped (state t)", f"{tracer} traces it", DETACH
        else:
            what, why, advice = "is stopped (state T)", "it got a stop signal", CONTINUE
        yield of_ranks(
            "rank_uninterruptible" if in_d else "rank_stopped", 0.93 if in_d else 0.97, [status.rank],
            nodes_of([status]), f"{what}{holds_up}: {why}",
            (*evidence_of(status), *waiters_of(graph)), advice.format(pid=status.pid or "PID"),
            *([next_step("K", "repair", "continue", *nodes_of([status]))] if advice is CONTINUE else ()),
        )  # fmt: skip


STATUS_RULES = (halted, held_up)
