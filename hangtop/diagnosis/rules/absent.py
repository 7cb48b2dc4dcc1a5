"""Ranks that are not there, or that have left training, while others wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import when
from hangtop.diagnosis.evidence.events import event_line
from hangtop.diagnosis.failures.first import left_at_exit
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.failures.unheard import UNSEEN_LINKS, kernel_at, kernel_between, kernel_text, logs_read_to
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import duration, listed, of_several, on_nodes, ranks_on, ranks_text, who_wait
from hangtop.diagnosis.roster import living_on, world_size
from hangtop.diagnosis.rules.crash import OUT_OF_MEMORY, SEGFAULT
from hangtop.diagnosis.rules.not_launched import RAN_OUT
from hangtop.diagnosis.rules.stuck import begun
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

GONE_S = 2.0
"""Ours: ranks of one job end within a second of each other when it ends well."""
ELSEWHERE = (
    "The others are past the start, in which all take part: most likely a node that hangtop was not given runs it "
    "(name that node, too), or it has ended."
)
LOOK_FOR_IT = (
    "Look for it: did its launcher start, is its node in the list that hangtop was given, what does its log say last?"
)
KILLED = (
    "A rank that writes nothing was killed from outside (out of memory, the batch system, somebody) or ended by "
    "itself: look at the kernel log of its node and at its launcher's last lines."
)


def missing(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing: WORLD_SIZE counts more ranks than are alive, and those that are there wait.

    It is rank_left_early where the missing ranks said so at the end of their programs. Needs every node in view. While
    the processes are younger than a start may take, it is a warning.
    """
    job, graph, absent = job_status.job, job_status.graph, job_status.of("missing")
    if not absent or graph is None or graph.pattern != "held_up" or graph.held < job_status.alarm_after:
        return
    if any(node.link in UNSEEN_LINKS for node in job.nodes.values()):
        return  # they may well live on the node that does not respond: that is node_unreachable
    exits = left_at_exit(job)
    if all(status.rank in exits for status in absent):
        yield _left_early(job_status, absent, [exits[status.rank] for status in absent])
        return
    others = any(culprit.state != "missing" for culprit in graph.culprits)
    living = [job.now - rank.process.started for rank in job.ranks if rank.gone_at is None]
    step, numbers = job.motion.last_step, tuple(status.rank for status in absent)
    young = min(living, default=0.0) < START_S and step is None
    belongs = _nodes_beside(job, numbers)
    beside = living_on(job, belongs[0]) if len(belongs) == 1 else ()
    kill = kernel_between(job, belongs[0], max(rank.process.started for rank in beside), job.now) if beside else None
    past_start = step is not None or begun(job_status.of("waiting"))
    alive = f"WORLD_SIZE={world_size(job)}, {len(job_status.present)} alive"
    yield Finding(
        "rank_missing", "warning" if young or others else "critical", 0.5 if others else 0.6 if young else 0.85,
        f"{ranks_text(numbers)} of {world_size(job)} {of_several('is', len(numbers))} on no node in view"
        f"{f' (it should be {on_nodes(belongs)})' if belongs else ''}"
        f"{f'; {kernel_text(job, kill)}' if kill else ''}; {who_wait(graph.waiters, 'rank')}",
        ranks=numbers,
        evidence=(
            Evidence(Observer.CONTEXT, "environment of the ranks", None, alive),
            *((event_line(kill),) if kill else ()),
            *waiters_of(graph),
        ),
        advice=OUT_OF_MEMORY if kill else ELSEWHERE if past_start else LOOK_FOR_IT,
    )  # fmt: skip


def _nodes_beside(job: Job, ranks: Sequence[int]) -> tuple[str, ...]:
    """Nodes where missing ranks belong, by LOCAL_RANK and LOCAL_WORLD_SIZE of the ranks that are there."""
    homes = set()
    for rank in job.ranks:
        size, local = rank.process.local_world_size, rank.process.local_rank
        if size and local is not None and any(0 <= number - rank.rank + local < size for number in ranks):
            homes.add(rank.node)
    return tuple(sorted(homes))


def ended(job_status: JobStatus) -> Iterator[Finding]:
    """rank_killed and rank_left_early of a rank that was seen, is gone without a word, and that the others wait for.

    One that was last seen shutting down, or that said so at its program's end, left by itself; any other was most
    likely killed. A rank whose log says how it failed is a matter of :mod:`crash`.
    """
    job, graph = job_status.job, job_status.graph
    told = by_rank(failures(job))
    gone = _logs_read(job_status, [s for s in job_status.of("gone") if s.rank not in told and s.held >= GONE_S])
    if not gone or not job_status.present or graph is None or not graph.waiters:
        return
    exits = left_at_exit(job)
    left = [one for one in gone if one.rank in exits or (one.activity and one.activity.kind == "shutdown")]
    killed: dict[tuple[str, str, float | None], list[tuple[RankStatus, LogEvent | None]]] = defaultdict(list)
    for status in gone:
        if status not in left:
            kernel = kernel_at(job, status.node, status.process.gone_at if status.process else None)
            label = status.activity.label if status.activity else ""
            killed[status.node, label, when(kernel) if kernel else None].append((status, kernel))
    for (node, label, _), together in killed.items():
        ranks, kernel = tuple(status.rank for status, _ in together), together[0][1]
        fault = kernel is not None and kernel.kind == "kernel.segfault"
        yield Finding(
            "rank_crashed" if fault else "rank_killed", "critical", 0.85 if kernel else 0.65,
            f"{ranks_on(ranks, [node])} {of_several('has', len(ranks))} been gone for "
            f"{duration(max(status.held for status, _ in together))} without a word"
            f"{f'; last seen {label}' if label else ''}{f'; {kernel_text(job, kernel)}' if kernel else ''}; "
            f"{who_wait(graph.waiters, 'other')} for {'it' if len(ranks) == 1 else 'them'}",
            ranks=ranks, nodes=(node,),
            evidence=(
                *(Evidence(Observer.PROCESS, f"/proc on {node}", job.now, f"process {status.pid} is gone")
                  for status, _ in together[:4]),
                *((event_line(kernel),) if kernel else ()),
                *evidence_of(together[0][0]),
                *waiters_of(graph),
            ),
            advice=SEGFAULT if fault else OUT_OF_MEMORY if kernel else KILLED,
        )  # fmt: skip
    if left:
        yield _left_early(job_status, left, [exits[status.rank] for status in left if status.rank in exits])


def leaving(job_status: JobStatus) -> Iterator[Finding]:
    """rank_left_early: by its stack a rank shuts down while others wait in a training collective."""
    graph = job_status.graph
    leavers = [culprit for culprit in graph.culprits if culprit.state == "leaving"] if graph else []
    if not leavers or graph is None or graph.held < job_status.alarm_after:
        return
    told = by_rank(failures(job_status.job))
    quiet = _logs_read(job_status, [s for s in leavers if all(f.consequence for f in told.get(s.rank, ()))])
    if quiet:
        yield _left_early(job_status, quiet)


def _logs_read(job_status: JobStatus, ended: Sequence[RankStatus]) -> list[RankStatus]:
    """Ranks since whose end logs were read: before that a rank may have raised, which its log tells."""
    read_to = logs_read_to(job_status.job)
    return [status for status in ended if job_status.job.now - status.held <= read_to]


def _left_early(job_status: JobStatus, leavers: Sequence[RankStatus], exits: Sequence[LogEvent] = ()) -> Finding:
    graph, numbers = job_status.graph, tuple(status.rank for status in leavers)
    doing = listed(sorted({status.where for status in leavers if status.where}))
    if exits:
        doing = "its program is over" if len(leavers) == 1 else "their programs are over"
    return Finding(
        "rank_left_early", "critical", 0.85,
        f"{ranks_on(numbers, nodes_of(leavers))} left training{f' ({doing})' if doing else ''} while "
        f"{who_wait(graph.waiters if graph else (), 'other')} in it",
        ranks=numbers, nodes=nodes_of(leavers),
        evidence=(*map(event_line, exits[:2]), *evidence_of(leavers[0]), *(waiters_of(graph) if graph else ())),
        advice=RAN_OUT,
    )  # fmt: skip
