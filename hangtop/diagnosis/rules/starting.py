"""A job that does not come up: ranks wait in init_process_group, in the store or in NCCL's bootstrap."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text
from hangtop.diagnosis.roster import known_ranks
from hangtop.diagnosis.rules.absent import ONE_NUMBER, told_twice
from hangtop.diagnosis.rules.stuck import COMING_UP, WHOLE_START, begun
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
YOUNGER_S = 5.0
"""Ours: seconds by which processes that were started anew are younger at the least than those of one start."""


def init_hang(job_status: JobStatus) -> Iterator[Finding]:
    """init_hang: ranks wait in init_process_group, a store or a rendezvous, longer than a start takes.

    Needs stacks of the waiting ranks, the age of their processes, and MASTER_ADDR and MASTER_PORT of their environment.
    Names the ranks that are there and not in that wait, those that are not there, else those whose master differs. Of
    ranks that are seen to make their way a start may take two minutes. Who waits in training has been through the
    start: where that are the most, those who wait to start were started anew by themselves, and are named.
    """
    coming = [s for s in job_status.of("waiting") if s.activity and s.activity.kind in COMING_UP]
    graph = job_status.graph
    if graph is None or not coming:
        return
    through = [s for s in job_status.of("waiting", "on_gpu") if s not in coming and _trains(s)]
    if len(through) > len(coming) and all(s.activity and s.activity.op in WHOLE_START for s in coming):
        yield from _anew(job_status, coming, through)
        return
    if len(coming) * 2 < len(job_status.of("waiting")) or begun(graph.waiters):
        return
    age = min((job_status.job.now - s.process.process.started for s in coming if s.process), default=START_S)
    late = [culprit for culprit in graph.culprits if culprit not in coming and culprit not in through]
    stuck = [one for one in late if one.state in ("working", "stopped", "uninterruptible") and one.frozen is not False]
    if graph.held < job_status.alarm_after or (age < START_S and not stuck):
        return
    if late and (all(map(job_status.works, late)) or all(graph.held < job_status.due(one) for one in late)):
        return  # it imports, builds its index of the data, or waits for something outside: told as waiting
    strangers, unlike = _other_master(coming), ""
    apart = () if late else _behind(coming)
    named = tuple(sorted({s.rank for s in late or apart} or strangers))
    address = _address(coming)
    if late:
        where = f", still in {late[0].where}" if late[0].where else ""
        why = f"{ranks_text(named)} {'has' if len(named) == 1 else 'have'} not come{where}"
    elif apart:
        doing = {s.activity.label for s in apart if s.activity}
        why = f"{ranks_text(named)} still {listed(sorted(doing))}, before the others"
    elif strangers:
        why = f"{ranks_text(named)} {'looks' if len(named) == 1 else 'look'} for another master"
    elif through:
        are = "is" if len(through) == 1 else "are"
        why = f"{ranks_text(s.rank for s in through)} {are} through, the others are not"
    else:
        why, unlike = _none_named(job_status, coming)
    twice = told_twice(job_status.job)
    yield Finding(
        "init_hang", "critical", 0.85 if named else 0.7,
        f"{count(len(coming), 'rank')} {'waits' if len(coming) == 1 else 'wait'} to start"
        f"{f' at {address}' if address else ''}: {why}{twice}",
        ranks=named,
        nodes=nodes_of(late or apart or coming),
        evidence=(
            *(evidence_of((late or apart)[0]) if late or apart else ()),
            *waiters_of(graph),
            *_master_proof(coming),
            Evidence("watch", None, f"up for {duration(age)}"),
        ),
        advice=ONE_NUMBER if twice else ONE_ORDER if unlike else ELSEWHERE if late and late[0].where else ONE_MASTER,
    )  # fmt: skip


def _none_named(job_status: JobStatus, coming: Sequence[RankStatus]) -> tuple[str, str]:
    """Why those who come up wait where no rank among them is the odd one, and the groups that they make, if unlike."""
    if missing := _not_there(job_status):
        return f"{ranks_text(missing)} {'is' if len(missing) == 1 else 'are'} not there", ""
    unlike = _other_groups(coming)
    return f"all are there, and {f'make different groups: {unlike}' if unlike else 'do not reach each other'}", unlike


def _not_there(job_status: JobStatus) -> tuple[int, ...]:
    """Ranks of the job of which no process lives; none where some process does not say which one it is."""
    there = {status.rank for status in job_status.statuses.values() if status.present}
    return () if min(there, default=0) < 0 else tuple(sorted(known_ranks(job_status.job) - there))


def _trains(status: RankStatus) -> bool:
    """It waits in what comes after the start, of which the frames or its GPU tell."""
    doing = status.activity
    return doing is not None and doing.kind in TRAINING and "init" not in doing.context


def _anew(job_status: JobStatus, coming: Sequence[RankStatus], through: Sequence[RankStatus]) -> Iterator[Finding]:
    """init_hang of ranks that wait to start while more are in training: they cannot get into a group that is made."""
    graph = job_status.graph
    if graph is None or graph.pattern == "held_up" or not job_status.hung or job_status.job.motion.moving:
        return
    now = job_status.job.now
    ages = [now - s.process.process.started for s in coming if s.process]
    others = [now - s.process.process.started for s in through if s.process]
    younger = bool(ages and others) and max(ages) < min(others) - YOUNGER_S
    up = f"up for {duration(max(ages))}, the others for {duration(min(others))}" if younger else "as old as the others"
    ranks = tuple(s.rank for s in coming)
    again = f"{'was' if len(ranks) == 1 else 'were'} started anew alone" if younger else "begins anew alone"
    yield Finding(
        "init_hang", "critical", 0.85 if younger else 0.6,
        f"{ranks_text(ranks)} {'waits' if len(ranks) == 1 else 'wait'} to start while {count(len(through), 'other')} "
        f"{'waits' if len(through) == 1 else 'wait'} in training: {'it' if len(ranks) == 1 else 'they'} {again}",
        ranks=ranks,
        nodes=nodes_of(coming),
        evidence=(*evidence_of(coming[0]), *evidence_of(through[0]), Evidence("watch", None, up)),
        advice="No rank can join groups that are made: end the job, and start all of its ranks anew. What ended the "
        "rank before stands in its log.",
    )  # fmt: skip


def _behind(coming: Sequence[RankStatus]) -> tuple[RankStatus, ...]:
    """Those who still look for the store, or wait in it, while others are past it; none where all are."""
    early = tuple(s for s in coming if s.activity and "rendezvous" in s.activity.label)
    if len(early) == len(coming):
        return ()
    return tuple(s for s in early if s.rank != 0) or early  # rank 0 serves the store, and waits there for the others


def _other_groups(coming: Sequence[RankStatus]) -> str:
    """Which ranks wait in the making of which group, where these differ, as the arguments tell; else empty."""
    by_label: dict[str, list[int]] = defaultdict(list)
    for status in coming:
        if status.activity is not None:
            by_label[status.activity.label].append(status.rank)
    if len(by_label) < 2 or not all(" of rank" in label for label in by_label):
        return ""
    return listed([f"{ranks_text(ranks)} {of_several(label, len(ranks))}" for label, ranks in by_label.items()])


def _masters(statuses: Sequence[RankStatus]) -> Counter[str]:
    known = [s.process.process for s in statuses if s.process and s.process.process.master_addr]
    return Counter(f"{process.master_addr}:{process.master_port}" for process in known)


def _other_master(statuses: Sequence[RankStatus]) -> set[int]:
    """Ranks whose master differs from that of the most; a name and an address of one host cannot be told from two."""
    masters = _masters(statuses)
    if len(masters) < 2:
        return set()
    usual = masters.most_common(1)[0][0]
    return {
        s.rank
        for s in statuses
        if s.process and f"{s.process.process.master_addr}:{s.process.process.master_port}" != usual
    }


def _address(statuses: Sequence[RankStatus]) -> str:
    masters = _masters(statuses)
    return masters.most_common(1)[0][0] if masters else ""


def _master_proof(statuses: Sequence[RankStatus]) -> tuple[Evidence, ...]:
    masters = _masters(statuses)
    lines = [
        f"MASTER_ADDR:MASTER_PORT {master} on {count(number, 'rank')}" for master, number in masters.most_common(3)
    ]
    return tuple(Evidence("environment of the ranks", None, line) for line in lines)
