"""Ranks that are not there while others wait for them: by WORLD_SIZE, and by NCCL RAS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.collectives.counts import communicators, last_answers
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.evidence.events import event_line, finished
from hangtop.diagnosis.failures.first import left_at_exit
from hangtop.diagnosis.failures.unheard import UNSEEN_LINKS, kernel_between, kernel_text
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed, of_several, on_nodes, ranks_text, who, who_wait
from hangtop.diagnosis.roster import homes, living_on, world_size
from hangtop.diagnosis.rules.crash import MORE_MEMORY
from hangtop.diagnosis.rules.stuck import begun
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.waits.evidence import waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus

AWAY = ("missing", "unresponsive", "dead")
"""States of ranks that NCCL's RAS does not find."""
ELSEWHERE = (
    "The others are past the start, in which all take part: most likely a node that hangtop was not given runs it "
    "(name that node, too), or it has ended."
)
LOOK_FOR_IT = (
    "Look for it: did its launcher start, is its node in the list that hangtop was given, what does its log say last?"
)


def missing(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing: WORLD_SIZE counts more ranks than are alive, and those that are there wait.

    Needs every node in view. While the processes are younger than a start may take, it is a warning.
    """
    job, graph, absent = job_status.job, job_status.graph, job_status.of("missing")
    if not absent or graph is None or graph.pattern != "held_up" or graph.held < job_status.alarm_after:
        return
    if any(node.link in UNSEEN_LINKS for node in job.nodes.values()):
        return  # they may well live on the node that does not respond: that is node_unreachable
    numbers = tuple(status.rank for status in absent)
    if set(numbers) <= left_at_exit(job).keys():
        return  # that is rank_left_early
    others = any(culprit.state != "missing" for culprit in graph.culprits)
    living = [job.now - rank.process.started for rank in job.ranks if rank.gone_at is None]
    young = min(living, default=0.0) < START_S and job.motion.last_step is None
    belongs = _nodes_beside(job, numbers)
    beside = living_on(job, belongs[0]) if len(belongs) == 1 else ()
    kill = kernel_between(job, belongs[0], max(rank.process.started for rank in beside), job.now) if beside else None
    past_start = job.motion.last_step is not None or begun(job_status.of("waiting"))
    yield Finding(
        "rank_missing", "warning" if young or others else "critical", 0.5 if others else 0.6 if young else 0.85,
        f"{ranks_text(numbers)} of {world_size(job)} {of_several('is', len(numbers))} on no node in view"
        f"{f' (it should be {on_nodes(belongs)})' if belongs else ''}"
        f"{f'; {kernel_text(job, kill)}' if kill else ''}; {who_wait(graph.waiters, 'rank')}",
        ranks=numbers,
        evidence=(
            Evidence(Observer.CONTEXT, "environment of the ranks", None,
                     f"WORLD_SIZE={world_size(job)}, {len(job_status.present)} alive"),
            *((event_line(kill),) if kill else ()),
            *waiters_of(graph),
        ),
        advice=MORE_MEMORY if kill else ELSEWHERE if past_start else LOOK_FOR_IT,
    )  # fmt: skip


def _nodes_beside(job: Job, ranks: Sequence[int]) -> tuple[str, ...]:
    """Nodes where missing ranks belong, by LOCAL_RANK and LOCAL_WORLD_SIZE of the ranks that are there."""
    nodes = set()
    for rank in job.ranks:
        size, local = rank.process.local_world_size, rank.process.local_rank
        if size and local is not None and any(0 <= number - rank.rank + local < size for number in ranks):
            nodes.add(rank.node)
    return tuple(sorted(nodes))


def ras_away(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers, two or more, could not find."""
    job, last = job_status.job, last_answers(job_status.job)
    if len(last) < (2 if job.live or finished(job) else 1):
        return
    resolver, surely = job.once(CommRankResolver), len(last) > 1 or bool(last[-1].value.dead)
    for comm, states in sorted(communicators(last).items()):
        lost = [{one.rank for one in state.ranks if one.state in AWAY} for state in states]
        steady = set.intersection(*lost) if len(states) == len(last) else set()
        members = [one for one in states[-1].ranks if one.rank in steady]
        if not members or not resolver.is_ours(members):
            continue
        ranks = tuple(sorted({rank for one in members if (rank := resolver.of(one.host, one.pid)) is not None}))
        told = listed([f"rank {one.rank} of it ({one.host}, pid {one.pid}) {one.state}" for one in members])
        yield Finding(
            "rank_missing", "critical", 0.8 if surely else 0.5,
            f"NCCL does not find {who(ranks, count(len(members), 'process', 'processes'))} any more",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(Evidence(Observer.RAS, f"NCCL RAS, communicator {comm}", last[-1].at, told),),
            advice="The process ended, is stopped, or its node is cut off: look at it first.",
        )  # fmt: skip
