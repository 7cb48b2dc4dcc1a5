"""Ranks wait for a rank that does not wait: which one, where it is, and whether that is a fault.

Two claims. *Who is waited for* is in the stacks of those who wait, and is told at once (``waiting``), with what the
rank waited for is doing. *Whether that is a fault* is a matter of its wake set
(:mod:`hangtop.diagnosis.waits.wake_set`): one of ``rank_stuck_in_data``, ``rank_stuck_in_checkpoint``,
``rank_stuck_on_lock`` and ``rank_stuck_in_code`` once it makes no progress and its patience is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.addresses import node_at
from hangtop.diagnosis.evidence.events import event_line
from hangtop.diagnosis.failures.threads import failed_thread, missing_threads, thread_told
from hangtop.diagnosis.finding import Finding, next_step
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_on
from hangtop.diagnosis.tables.thresholds import WORTH_SAYING_S
from hangtop.diagnosis.waits.children import children_told
from hangtop.diagnosis.waits.evidence import evidence_of, threads_of, waiters_of, watch_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, in_c_code, nodes_of
from hangtop.diagnosis.waits.score import in_a_kernel, weight_of

COMING_UP = frozenset({"init", "store"})
"""What ranks wait in that have not yet begun to train."""
WHOLE_START = frozenset({"init_process_group", "init_distributed"})
"""Operations that a rank's process comes to but once, before all training."""

PLACES_TOLD = 3
"""Places at which ranks that are waited for are told."""
FAILED_THREAD = "Mend what ended its thread: what that was to bring never comes. Let it hand its exception over."
ADVICE = {
    "rank_stuck_in_data": "Look at the storage behind the data and at the worker processes of this rank; run once with "
    "num_workers=0 to see the real error.",
    "rank_stuck_in_checkpoint": "Check the file system that it writes to. If only one rank saves, raise the time-out "
    "of that group or save asynchronously.",
    "rank_stuck_on_lock": "Find who holds the lock: look at the other threads of this rank. A lock that was held while "
    "a worker was forked is never released in the worker.",
    "rank_stuck_in_code": "Look at this frame: it is the only place where the job does not go on.",
}
_CHILDREN = "Look at the child processes of this rank: it goes on when one of them has ended or answered."
ADVICE_BY_WAIT = {
    ("rank_stuck_on_lock", "helper"): _CHILDREN,
    ("rank_stuck_in_code", "helper"): _CHILDREN,
    ("rank_stuck_in_code", "storage"): "The kernel keeps it in this call: look at the file, the pipe or the connection "
    "behind this line.",
    ("rank_stuck_on_lock", "storage"): "Find who keeps this file locked; on shared storage it may be a process of "
    "another node (lslocks).",
    ("rank_stuck_on_lock", "time"): "Find who has what it tries to lock: the file of a lock whose owner was killed may "
    "still lie there.",
}
NOT_LAUNCHED = (
    "It has not launched what the others wait in, or waits for ranks of its own node: look at what its GPU does (the "
    "kernel before that, Xid lines, power), and at its stack."
)


def stuck_in_code(job_status: JobStatus) -> Iterator[Finding]:
    """Yield rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_on_lock and rank_stuck_in_code.

    Needs stacks of the rank and of some that wait for it, in two looks or more (or one look in a job that has stood
    still), and no progress of its wake set for as long as :meth:`JobStatus.due` says.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "held_up" or coming_up(graph):
        return
    for (kind, _), members in _alike(graph).items():
        if graph.held >= min(job_status.due(member) for member in members):
            yield _finding(job_status, graph, kind, members)


def waits(job_status: JobStatus) -> Iterator[Finding]:
    """waiting: ranks wait for one that is at work, or whose patience is not over: who, where, for how long.

    Needs stacks of the rank and of those who wait, in one look or more.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "held_up" or not graph.waiters or graph.held < WORTH_SAYING_S:
        return
    members = [
        c
        for c in graph.culprits
        if c.state in ("working", "on_gpu", "uninterruptible") and graph.held < job_status.due(c)
    ]
    if not members or len(members) < len(graph.culprits):
        return
    places = [_place(job_status, alike) for alike in _same_place(members).values()]
    before = job_status.job.usual_pause or 0.0
    long = graph.held >= job_status.outside_patience
    yield Finding(
        "waiting", "warning", 0.8,
        f"{count(len(graph.waiters), 'rank')} {'waits' if len(graph.waiters) == 1 else 'wait'} {duration(graph.held)} "
        f"for {'; '.join(places[:PLACES_TOLD])}"
        + (f"; the longest wait before was {duration(before)}" if long and before else "")
        + _watchdog(job_status, graph.held),
        ranks=tuple(member.rank for member in members),
        nodes=nodes_of(members),
        evidence=(*(line for one in members[:PLACES_TOLD] for line in evidence_of(one)), *waiters_of(graph)),
        advice="Whether this is a fault is not known yet: the rank is at work, or what it waits for may still come. "
        "Watch on: the rank is called hung once nothing of it makes progress.",
        next=(next_step("d", "stacks", members[0].node or "NODE", "--rank", str(members[0].rank)),),
    )  # fmt: skip


def _same_place(members: Sequence[RankStatus]) -> dict[str, list[RankStatus]]:
    """Ranks by where they are, the place of most ranks first."""
    groups: dict[str, list[RankStatus]] = defaultdict(list)
    for member in members:
        groups[member.where].append(member)
    return dict(sorted(groups.items(), key=lambda pair: -len(pair[1])))


def _place(job_status: JobStatus, alike: Sequence[RankStatus]) -> str:
    """``rank 2 on node1: tune_kernels (job2.py:61), 1.0 core busy``."""
    first = alike[0]
    figures = job_status.wake_set(first).figures
    where = first.where or (first.activity.label if first.activity else "")
    words = ", ".join(dict.fromkeys(word for word in (where, figures, children_told(first)) if word))
    return f"{ranks_on((one.rank for one in alike), (one.node for one in alike))}{f': {words}' if words else ''}"


def _watchdog(job_status: JobStatus, held: float) -> str:
    """``; its watchdog ends the job in 5 min``, once half of the job's own collective time-out is over."""
    timeout = job_status.job.collective_timeout
    if timeout is None or not 0.5 * timeout <= held < timeout:
        return ""
    return f"; the watchdog ends the job in {duration(timeout - held)}"


def coming_up(graph: WaitGraph) -> bool:
    """True where most who wait still wait to start: that is init_hang, whoever has not come."""
    if begun(graph.waiters):
        return False
    coming = [one for one in graph.waiters if one.activity and one.activity.kind in COMING_UP]
    return bool(coming) and len(coming) * 2 >= len(graph.waiters)


def begun(waiters: Iterable[RankStatus]) -> bool:
    """Whether one of them waits in an operation of training, and nobody in a start: a store may be used again later."""
    kinds = {one.activity.kind for one in waiters if one.activity is not None and "init" not in one.activity.context}
    starts = any(one.activity is not None and one.activity.kind == "init" for one in waiters)
    return bool(kinds & {"collective", "p2p"}) and not starts


def kind_of(status: RankStatus) -> str:
    """Choose the kind of being stuck by what the rank does, then by what it does that for.

    A rank that sleeps in C code below its own line most likely wants a lock: ``with lock:`` has no frame of its own.
    One that waits for what its own processes send it wants no lock.
    """
    doing = status.activity
    assert doing is not None
    wants_lock = doing.kind == "lock" and doing.waits != "helper"
    if wants_lock or (in_c_code(status) and not doing.context & {"data", "checkpoint"}):
        return "rank_stuck_on_lock"
    if doing.kind == "checkpoint" or "checkpoint" in doing.context:
        return "rank_stuck_in_checkpoint"
    if doing.kind == "data" or "data" in doing.context:
        return "rank_stuck_in_data"
    return "rank_stuck_in_code"


def _alike(graph: WaitGraph) -> dict[tuple[str, str], list[RankStatus]]:
    """Culprits that are stuck at the same place, in one group."""
    groups: dict[tuple[str, str], list[RankStatus]] = defaultdict(list)
    for culprit in graph.culprits:
        if culprit.state in ("working", "on_gpu") and culprit.read:
            groups[kind_of(culprit), culprit.where].append(culprit)
    return groups


def _finding(job_status: JobStatus, graph: WaitGraph, kind: str, members: Sequence[RankStatus]) -> Finding:
    first = members[0]
    doing = first.activity
    assert doing is not None
    wake = job_status.wake_set(first)
    what = first.where or doing.label
    manner = f", {wake.figures}" if wake.figures and wake.figures != what else ""
    if in_a_kernel(first):
        manner = ", in a kernel that does not end, with nothing under way in the network while all others have"
    if far := node_at(job_status.job, doing.target.host):
        manner += f" ({far})"
    holder = f"; {doing.holder.name} holds it: {doing.holder.where}" if doing.holder else ""
    behind = holder + (f"; {told}" if (told := children_told(first)) else "")
    waits_idly = not (first.busy or doing.holder)
    missed = missing_threads(first, graph.waiters) if waits_idly else frozenset()
    failed = failed_thread(job_status.job, first, missed) if waits_idly else None
    if failed is not None:
        behind += f"; {thread_told(failed)}"
    elif missed:
        behind += f"; it has no thread {listed(sorted(missed))}, as the others have"
    return Finding(
        kind,
        "critical",
        weight_of(job_status, graph, members),
        ranks_on((m.rank for m in members), (m.node for m in members))
        + f" {'hold' if len(members) > 1 else 'holds'} up {count(len(graph.waiters), 'other')}: {what}{manner}{behind}",
        ranks=tuple(member.rank for member in members),
        nodes=nodes_of(members),
        evidence=(
            *evidence_of(first),
            *((threads_of(job_status, (first, *graph.waiters), first),) if in_a_kernel(first) else ()),
            *((event_line(failed.event),) if failed else ()),
            *waiters_of(graph),
            watch_of(graph, len(first.readings)),
        ),
        advice=FAILED_THREAD if failed or missed else _advice(kind, first),
        next=(next_step("^n", "stacks", first.node or "NODE", "--rank", str(first.rank), "--native"),),
    )


def _advice(kind: str, status: RankStatus) -> str:
    if in_a_kernel(status):
        return NOT_LAUNCHED
    waits = "" if status.activity is None else status.activity.waits
    return ADVICE_BY_WAIT.get((kind, waits), ADVICE[kind])
