"""A rank that does not wait holds up those who do: it reads, saves, locks or computes, and does not come back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.addresses import node_at
from hangtop.diagnosis.finding import Finding, next_step
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_on, ranks_text
from hangtop.diagnosis.stacks.generic import PROMPT
from hangtop.diagnosis.stacks.system import FILE_LOCKS, OPENS
from hangtop.diagnosis.tables.thresholds import LONG_WAIT_S, LONG_WORK_S, OWN_WORK_S, WAIT_FACTOR, WORTH_SAYING_S
from hangtop.diagnosis.waits.by_itself import goes_on
from hangtop.diagnosis.waits.children import children_told
from hangtop.diagnosis.waits.cpu_share import lacks_cpu
from hangtop.diagnosis.waits.evidence import evidence_of, threads_of, waiters_of, watch_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus, computes, may_work
from hangtop.diagnosis.waits.network_threads import BY_THREADS, NOT_LAUNCHED, in_a_kernel
from hangtop.diagnosis.waits.outside import waits_outside
from hangtop.diagnosis.waits.own_threads import goes_on_beside
from hangtop.diagnosis.waits.rank_status import RankStatus, in_c_code, nodes_of, waits_for_others
from hangtop.diagnosis.waits.rounds import goes_round
from hangtop.diagnosis.waits.serving import serves
from hangtop.diagnosis.waits.sleeping import in_one_sleep, left_of_sleep, sleep_left, sleeps_for_good
from hangtop.diagnosis.witnesses.devices import event_line
from hangtop.diagnosis.witnesses.failed_threads import failed_thread, missing_threads, thread_told

COMING_UP = frozenset({"init", "store"})
"""What ranks wait in that have not yet begun to train."""
WHOLE_START = frozenset({"init_process_group", "init_distributed"})
"""Operations that a rank's process comes to but once, before all training."""

GOES_ON, GOES_ON_LONG = 0.6, 0.7
"""Most weight where the rank computes or sleeps for a time in code of its own, which a healthy one does, too; and once
that has lasted. So does one that serves, until somebody connects to it, and one whose service takes its time."""
SERVES = "a connection at "
"""What a call on a socket that listens waits on begins with (:mod:`collectors.node.processes.process_state`)."""
IDLE = (
    "It waits for somebody to connect to it: a service that nobody asks is idle. Else find who should have connected."
)
BY_NAME = 0.72
"""Most weight of a kind that names in user code alone gave."""

NO_PARTNER = ("wait_for_partner", "fifo_open")
"""Functions of the kernel in which the opening of a named pipe waits for somebody at its other end."""

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


def stuck_in_code(job_status: JobStatus) -> Iterator[Finding]:
    """Yield rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_on_lock and rank_stuck_in_code.

    Needs stacks of the rank and of some that wait for it, in two looks or more (or one look in a job that has stood
    still), over the patience; a rank that visibly works at something that takes long is given a minute at the least.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "held_up" or coming_up(graph):
        return
    for (kind, _), members in _alike(graph).items():
        if job_status.kept_waiting(members) >= min(job_status.due(member) for member in members):
            yield _finding(job_status, graph, kind, members)


def waits(job_status: JobStatus) -> Iterator[Finding]:
    """waiting: ranks wait for one that visibly works, and not for longer than that may take; no alarm.

    Needs stacks in two looks or more.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "held_up" or graph.held < WORTH_SAYING_S:
        return
    members = [c for c in graph.culprits if c.state == "working" and graph.held < job_status.due(c)]
    if not members or len(members) < len(graph.culprits):
        return
    first = members[0]
    label = "its GPU computes" if first.load == "computing" else first.activity.label if first.activity else ""
    before = job_status.job.usual_pause or 0.0
    long = graph.held >= max(LONG_WAIT_S, WAIT_FACTOR * before)
    yield Finding(
        "waiting", "warning" if long else "info", 0.8,
        f"{count(len(graph.waiters), 'rank')} waiting {duration(graph.held)} for "
        f"{ranks_text(m.rank for m in members)}: "
        f"{first.where or label}" + (f"; the longest wait before was {duration(before)}" if long and before else ""),
        ranks=tuple(member.rank for member in members),
        nodes=nodes_of(members),
        evidence=(*evidence_of(first), *waiters_of(graph)),
        advice="No alarm: this may take long. It becomes one when it lasts far longer than before.",
    )  # fmt: skip


def last_known(job_status: JobStatus) -> Iterator[Finding]:
    """What held up a job whose node stopped responding: rank_stuck_in_…, a consequence nobody can look into any more.

    Needs stacks from before; beside node_unreachable, which comes first.
    """
    for status in job_status.of("missing"):
        doing = status.activity
        if doing is None or doing.error or not doing.where or waits_for_others(doing) or doing.moving:
            continue
        node = job_status.job.nodes.get(status.node)
        ago = (
            ""
            if node is None or node.seen_at is None
            else f" {duration(max(0.0, job_status.job.now - node.seen_at))} ago"
        )
        yield Finding(
            kind_of(status), "warning", 0.5,
            f"last known, before {status.node} stopped responding{ago}: {ranks_text((status.rank,))} in {doing.where}",
            ranks=(status.rank,), nodes=(status.node,), evidence=evidence_of(status),
            advice=ADVICE[kind_of(status)], cause="node_unreachable",
        )  # fmt: skip


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
    manner = _manner(first, graph.held)
    if doing.waiting_on and manner.endswith(doing.waiting_on) and (far := node_at(job_status.job, doing.waiting_on)):
        manner += f" ({far})"
    holder = f"; {doing.holder.name} holds it: {doing.holder.where}" if doing.holder else ""
    what = first.where or doing.label
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
        _weight(job_status, graph, members),
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
    doing = status.activity
    if in_a_kernel(status):
        return NOT_LAUNCHED
    if kind in ("rank_stuck_on_lock", "rank_stuck_in_code") and doing is not None:
        if doing.waiting_on.startswith(SERVES) or serves(status):
            return IDLE
        if doing.label.startswith(PROMPT):
            return "Somebody left a breakpoint there: answer it on the terminal of this rank, or take it out."
        if doing.waits == "helper":
            return "Look at the child processes of this rank: it goes on when one of them has ended or answered."
        if kind == "rank_stuck_in_code" and doing.waits == "storage":
            return "The kernel keeps it in this call: look at the file, the pipe or the connection behind this line."
        if kind == "rank_stuck_on_lock" and doing.waits == "time":
            return "Find who has what it tries to lock: the file of a lock whose owner was killed may still lie there."
        if doing.syscall in FILE_LOCKS:
            return "Find who keeps this file locked; on shared storage it may be a process of another node (lslocks)."
    return ADVICE[kind]


def _manner(status: RankStatus, held: float) -> str:
    """Say whether it computes or hangs in a call, where that is known; ``held`` is how long the others have waited."""
    doing = status.activity
    if in_a_kernel(status):
        return ", in a kernel that does not end, with nothing under way in the network while all others have"
    if goes_round(status):
        return ", busy in a loop that comes back to the same lines with the same variables"
    if computes(status):
        lacks = lacks_cpu(status)
        return f", busy for {duration(held)}{lacks}, unlike the others: long work, or a loop without end"
    if status.busy:
        return ", busy"
    if in_one_sleep(status):
        left = f" that ends in {duration(left_of_sleep(status) or 0.0)}" if sleeps_for_good(status) else ""
        return f", asleep for a time of its own{left}, {duration(held)} after the others came"
    if doing and doing.label.startswith(PROMPT):
        return f", {PROMPT}"
    if serves(status):
        return ", waits for whoever asks it"
    if status.blocked:
        if doing and doing.waiting_on and doing.syscall in OPENS:
            alone = ", a named pipe whose other end nobody opens" if doing.wchan in NO_PARTNER else ""
            return f", blocked opening {doing.waiting_on.replace(', to ', ' to ')}{alone}"
        if doing and doing.waiting_on.startswith(SERVES):
            return f", waits for {doing.waiting_on}"
        if doing and doing.waiting_on and doing.waits != "time" and sleep_left(doing.waiting_on) is None:
            return f", blocked on {doing.waiting_on}"
        outside = doing is not None and doing.kind == "code" and doing.waits == "storage" and doing.syscall
        return f", blocked in {outside}" if outside else ", blocked"
    return ""


def _weight(job_status: JobStatus, graph: WaitGraph, members: Sequence[RankStatus]) -> float:
    """Weigh what was seen: a blocked culprit and waiters that stand still are as sure as stacks can be."""
    sure = 0.92 if graph.frozen else 0.8
    if any(member.frozen is not True for member in members):
        sure -= 0.12
    if any(may_work(member) for member in members):
        sure -= 0.15
    if any(in_a_kernel(member) for member in members):
        sure = min(sure, BY_THREADS)
    if any(in_c_code(member) or _unseen_in_c(member) for member in members):
        sure -= 0.15
    if any(member.activity is not None and member.activity.by_name for member in members):
        sure = min(sure, BY_NAME)  # who it is is seen; what it is stuck in is told by a name
    listens = any(member.activity is not None and member.activity.waiting_on.startswith(SERVES) for member in members)
    if listens or any(map(serves, members)):
        sure = min(sure, GOES_ON)
    if len(members) * 2 > len(members) + len(graph.waiters):
        sure -= 0.1
    if len({culprit.where for culprit in graph.culprits}) > 1:
        sure -= 0.1
    if job_status.job.watched >= 60 and graph.held >= 60:
        sure += 0.05
    if job_status.job.live:
        sure = min(sure, *(_most(member, graph.held) for member in members))
    return round(max(0.3, sure), 2)


def _unseen_in_c(status: RankStatus) -> bool:
    """Native frames would tell what it waits for in a call of C, of which the kernel does not tell it."""
    doing = status.activity
    return doing is not None and doing.native_would_tell and not doing.waiting_on and doing.waits == "unknown"


def _most(status: RankStatus, held: float) -> float:
    """Most weight of a wait for a rank that may be at something which ends by itself, for all that was seen of it."""
    if sleeps_for_good(status):
        return GOES_ON_LONG
    if goes_on(status, held):
        return GOES_ON_LONG if held >= LONG_WORK_S else GOES_ON
    if held < LONG_WORK_S and (waits_outside(status) or goes_on_beside(status)):
        return GOES_ON if held < OWN_WORK_S else GOES_ON_LONG
    if goes_round(status) or (held < LONG_WORK_S and in_c_code(status)):
        return GOES_ON_LONG  # what it asks for in C may yet become another; or nothing tells what it waits for there
    return 1.0 if not computes(status) else GOES_ON_LONG if held >= LONG_WORK_S else GOES_ON
