"""A job that does not come up: ranks wait in init_process_group, in the store, or in NCCL's bootstrap (init_hang)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text
from hangtop.diagnosis.roster import known_ranks
from hangtop.diagnosis.rules.absent import ONE_NUMBER, told_twice
from hangtop.diagnosis.rules.stuck import COMING_UP, WHOLE_START, begun
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

TRAINING = frozenset({"collective", "p2p", "device", "backward"})
"""Kinds of waits in which a rank has been through the start."""
ONE_MASTER = (
    "Check that MASTER_ADDR is the address of the first node as all others see it, that nothing filters the port, and "
    "which interface is used (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)."
)
ELSEWHERE = (
    "Look at what it does there, and why it does not go on: the others can only wait until it comes to make its groups."
)
ONE_ORDER = (
    "Every rank must call new_group for every group, also for those that it is not in, in one order and with the same "
    "ranks; with use_local_synchronization, groups that share ranks must be made in one order, too."
)
START_ANEW = (
    "No rank can join groups that are made: end the job, and start all of its ranks anew. What ended the rank before "
    "stands in its log."
)
DID_IT_START = (
    "Look at the ranks that did not come: did they start, can they reach MASTER_ADDR, and do all have the same "
    "WORLD_SIZE? Under Slurm as many tasks must run on a node as the Trainer has devices there."
)
YOUNGER_S = 5.0
"""Ours: seconds by which processes that were started anew are younger at the least than those of one start."""
WAITS = 3
"""Lines of torch's barrier at the store, ten seconds each: fewer are an ordinary start."""
CLOSE = 5
"""Lines after the last rank that joined from which on something else went on."""


def init_hang(job_status: JobStatus) -> Iterator[Finding]:
    """init_hang: ranks wait in init_process_group, a store or a rendezvous, longer than a start takes.

    Needs stacks of the waiting ranks, the age of their processes, and MASTER_ADDR and MASTER_PORT of their environment.
    Named are the ranks that are elsewhere, those that are not there, those that are still before the others, or those
    whose master differs. Where most ranks are in training, those that wait to start were started anew by themselves.
    """
    coming = [s for s in job_status.of("waiting") if s.activity and s.activity.kind in COMING_UP]
    graph = job_status.graph
    if graph is None or not coming:
        return
    through = [s for s in job_status.of("waiting", "on_gpu") if s not in coming and _trains(s)]
    if len(through) > len(coming) and all(s.activity and s.activity.op in WHOLE_START for s in coming):
        yield from _started_anew(job_status, coming, through)
        return
    if len(coming) * 2 < len(job_status.of("waiting")) or begun(graph.waiters):
        return
    age = min((job_status.job.now - s.process.process.started for s in coming if s.process), default=START_S)
    late = [culprit for culprit in graph.culprits if culprit not in coming and culprit not in through]
    stuck = any(s.state in ("working", "stopped", "uninterruptible") and s.frozen is not False for s in late)
    if graph.held < job_status.alarm_after or (age < START_S and not stuck):
        return
    if late and (all(map(job_status.works, late)) or all(graph.held < job_status.due(one) for one in late)):
        return  # it imports, builds its index of the data, or waits for something outside: told as waiting
    ranks, why, advice = _reason(job_status, coming, late, through)
    masters = _masters(coming)
    at = f" at {masters.most_common(1)[0][0]}" if masters else ""
    twice = told_twice(job_status.job)
    named = [s for s in (*late, *coming) if s.rank in ranks]
    yield Finding(
        "init_hang", "critical", 0.85 if ranks else 0.7,
        f"{count(len(coming), 'rank')} {of_several('waits', len(coming))} to start{at}: {why}{twice}",
        ranks=ranks, nodes=nodes_of(named or coming),
        evidence=(
            *(evidence_of(named[0]) if named else ()),
            *waiters_of(graph),
            *(Evidence("environment of the ranks", None, f"MASTER_ADDR:MASTER_PORT {one} on {count(number, 'rank')}")
              for one, number in masters.most_common(3)),
            Evidence("watch", None, f"up for {duration(age)}"),
        ),
        advice=ONE_NUMBER if twice else advice,
    )  # fmt: skip


def _reason(job_status: JobStatus, coming: Sequence[RankStatus], late: Sequence[RankStatus],
            through: Sequence[RankStatus]) -> tuple[tuple[int, ...], str, str]:  # fmt: skip
    """Which ranks hold up the start, the words for it, and what to look at."""
    if late:
        ranks, where = tuple(sorted({s.rank for s in late})), late[0].where
        still = f", still in {where}" if where else ""
        return ranks, f"{_are(ranks, 'has')} not come{still}", ELSEWHERE if where else ONE_MASTER
    behind = _before_the_others(coming)
    if behind:
        ranks = tuple(s.rank for s in behind)
        doing = listed(sorted({s.activity.label for s in behind if s.activity}))
        return ranks, f"{ranks_text(ranks)} still {doing}, before the others", ONE_MASTER
    strangers = _other_master(coming)
    if strangers:
        return strangers, f"{_are(strangers, 'looks')} for another master", ONE_MASTER
    if through:
        return (), f"{_are([s.rank for s in through], 'is')} through, the others are not", ONE_MASTER
    there = {status.rank for status in job_status.statuses.values() if status.present}
    absent = () if min(there, default=0) < 0 else tuple(sorted(known_ranks(job_status.job) - there))
    if absent:
        return absent, f"{_are(absent, 'is')} not there", ONE_MASTER
    groups = _different_groups(coming)
    if groups:
        return (), f"all are there, and make different groups: {groups}", ONE_ORDER
    return (), "all are there, and do not reach each other", ONE_MASTER


def _are(ranks: Sequence[int], verb: str) -> str:
    return f"{ranks_text(ranks)} {of_several(verb, len(ranks))}"


def _trains(status: RankStatus) -> bool:
    """It waits in what comes after the start, of which the frames or its GPU tell."""
    doing = status.activity
    return doing is not None and doing.kind in TRAINING and "init" not in doing.context


def _started_anew(
    job_status: JobStatus, coming: Sequence[RankStatus], through: Sequence[RankStatus]
) -> Iterator[Finding]:
    """init_hang of ranks that wait to start while more are in training: they cannot get into a group that is made."""
    graph = job_status.graph
    if graph is None or graph.pattern == "held_up" or not job_status.hung or job_status.job.motion.moving:
        return
    ages = [job_status.job.now - s.process.process.started for s in coming if s.process]
    others = [job_status.job.now - s.process.process.started for s in through if s.process]
    younger = bool(ages and others) and max(ages) < min(others) - YOUNGER_S
    up = f"up for {duration(max(ages))}, the others for {duration(min(others))}" if younger else "as old as the others"
    ranks = tuple(s.rank for s in coming)
    again = "was started anew alone" if younger else "begins anew alone"
    yield Finding(
        "init_hang", "critical", 0.85 if younger else 0.6,
        f"{_are(ranks, 'waits')} to start while {count(len(through), 'other')} {of_several('waits', len(through))} in "
        f"training: {'it' if len(ranks) == 1 else 'each'} {again}",
        ranks=ranks, nodes=nodes_of(coming),
        evidence=(*evidence_of(coming[0]), *evidence_of(through[0]), Evidence("watch", None, up)), advice=START_ANEW,
    )  # fmt: skip


def _before_the_others(coming: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """Ranks that still look for the store, or wait in it, while others are past it; none where all do.

    Rank 0 serves the store, and waits there for the others.
    """
    early = [s for s in coming if s.activity and s.activity.meaning is Meaning.RENDEZVOUS]
    if len(early) == len(coming):
        return ()
    return [s for s in early if s.rank != 0] or early


def _different_groups(coming: Sequence[RankStatus]) -> str:
    """Which ranks wait in the making of which group, where these differ, as the arguments tell; else empty."""
    by_label: dict[str, list[int]] = defaultdict(list)
    for status in coming:
        by_label[status.activity.label if status.activity else ""].append(status.rank)
    if len(by_label) < 2 or not all(status.activity and status.activity.members for status in coming):
        return ""
    return listed([f"{ranks_text(ranks)} {of_several(label, len(ranks))}" for label, ranks in by_label.items()])


def _master(status: RankStatus) -> str:
    process = status.process.process if status.process else None
    return f"{process.master_addr}:{process.master_port}" if process and process.master_addr else ""


def _masters(statuses: Sequence[RankStatus]) -> Counter[str]:
    return Counter(filter(None, map(_master, statuses)))


def _other_master(statuses: Sequence[RankStatus]) -> tuple[int, ...]:
    """Ranks whose master differs from that of the most."""
    usual = [master for master, _ in _masters(statuses).most_common(1)]
    return tuple(sorted(s.rank for s in statuses if _master(s) not in ("", *usual)))


def store_barrier(job: Job) -> Iterator[Finding]:
    """init_hang by a log that ends while ranks come together: torch's barrier at the store, or Lightning's.

    Needs their lines, of a job that is over; a start that came about, or that ended by its time-out, is told elsewhere.
    """
    waits, joins = said(job, "torch.store_waiting"), said(job, "job.joining")
    if job.live or failures(job) or any(said(job, f"torch.store_{end}") for end in ("complete", "timeout")):
        return
    ends = {event.source: event.line for event in said(job, "log.end")}
    started = said(job, "job.joined") or any(ends.get(event.source, 0) - event.line > CLOSE for event in joins[-1:])
    if joins and not started:
        expected, here = number_of(joins[-1], "size") or 0, ranks_in(joins)
        absent = tuple(rank for rank in range(expected) if rank not in here)
        silent = f"; of {ranks_text(absent)} there is no word" if absent else ""
        ranks = absent if 0 < len(absent) * 2 < expected else ()
        yield Finding(
            "init_hang", "critical", 0.6,
            f"{ranks_text(here)} of {expected} wait for the group to come together{silent}",
            ranks=ranks, nodes=hosts_in(job, joins), evidence=lines(joins), advice=DID_IT_START,
        )  # fmt: skip
    joined, size = (number_of(waits[-1], name) for name in ("joined", "expected")) if waits else (None, None)
    if joined is None or size is None or joined == size or (joined < size and len(waits) < WAITS):
        return
    came = f": {joined} of {size} ranks had come" if joined < size else f", to whose store {joined} had come"
    yield Finding(
        "init_hang", "critical", 0.7, f"{ranks_text(ranks_in(waits))} waited for a group of {size}{came}",
        nodes=hosts_in(job, waits), evidence=lines(waits),
        advice=DID_IT_START if joined < size else "torch's barrier waits until exactly as many came: look for an "
        "earlier run whose store still serves, for ranks that were started twice, and for a world_size that differs.",
    )  # fmt: skip


def nccl_init_stuck(job: Job) -> Iterator[Finding]:
    """init_hang by NCCL's log: a communicator's Init START without COMPLETE on some ranks.

    Needs NCCL INFO lines; live, only a start that is a minute old counts. A communicator that some of its ranks have,
    and in which a collective timed out, had all of them: the others' lines are not there.
    """
    events = defaultdict(list)
    for event in said(job, "nccl.init"):
        if text_of(event, "comm_id") and number_of(event, "group_rank") is not None:
            events[text_of(event, "comm_id"), text_of(event, "parent")].append(event)
    for (comm, parent), own in sorted(events.items()):
        phases = {number_of(event, "group_rank") or 0: event for event in own}
        waiting = {rank for rank, event in phases.items() if text_of(event, "phase") == "start"}
        times = [event.at for rank, event in phases.items() if rank in waiting and event.at is not None]
        if not waiting or (job.live and (not times or job.now - max(times) < job.alarm_after)):
            continue
        if waiting < phases.keys() and said(job, "torch.watchdog_timeout"):
            continue
        size = max((number_of(event, "size") or 0 for event in own), default=0)
        absent = tuple(sorted(set(range(size)) - phases.keys()))
        named = absent if len(absent) * 2 <= size else ()
        never = f"; {ranks_text(named)} of it never began" if named else ""
        yield Finding(
            "init_hang", "critical", 0.75,
            f"NCCL communicator {comm} was begun by {ranks_text(waiting)} and never completed{never}",
            ranks=named if not parent else (), evidence=lines(own)[:3],
            advice="A rank did not come, or its bootstrap connection is blocked: look at its stack, its interface, a "
            "firewall.",
        )  # fmt: skip
