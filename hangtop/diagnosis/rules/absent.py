"""Ranks that others wait for in vain: never there, gone without a word, or at the end of their program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.counts import CommRankResolver, communicators, last_answers
from hangtop.diagnosis.evidence.event_fields import when
from hangtop.diagnosis.evidence.events import event_line, finished, ranks_in, said
from hangtop.diagnosis.failures.first import left_at_exit, left_before, lost_connections
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.failures.unheard import (
    KILLS,
    UNSEEN_LINKS,
    kernel_at,
    kernel_between,
    kernel_text,
    logs_behind,
    logs_read_to,
)
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import (
    count,
    duration,
    listed,
    of_several,
    on_nodes,
    ranks_on,
    ranks_text,
    who,
    who_wait,
)
from hangtop.diagnosis.roster import homes, living_on, world_size
from hangtop.diagnosis.rules.crash import MORE_MEMORY, wordless
from hangtop.diagnosis.rules.stuck import begun
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

GONE_S = 2.0
"""Ours: ranks of one job end within a second of each other when it ends well."""
AWAY = ("missing", "unresponsive", "dead")
"""States of ranks that NCCL's RAS does not find."""
ELSEWHERE = (
    "The others are past the start, in which all take part: most likely a node that hangtop was not given runs it "
    "(name that node, too), or it has ended."
)
LOOK_FOR_IT = (
    "Look for it: did its launcher start, is its node in the list that hangtop was given, what does its log say last?"
)

RAN_OUT = (
    "Its data ran out before the others': give every rank the same number of batches, or use "
    "torch.distributed.algorithms.join."
)


def missing(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing: WORLD_SIZE counts more ranks than are alive, and those that are there wait.

    Past the start, and where their node is in view, they have ended: rank_killed.

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
    kill = (
        kernel_between(job, belongs[0], max(rank.process.started for rank in beside), job.now, *KILLS)
        if beside
        else None
    )
    past_start = job.motion.last_step is not None or begun(job_status.of("waiting", "on_gpu"))
    proof = (
        Evidence(Observer.CONTEXT, "environment of the ranks", None,
                 f"WORLD_SIZE={world_size(job)}, {len(job_status.present)} alive"),
        *waiters_of(graph),
    )  # fmt: skip
    if past_start and belongs and not others:
        told = kernel_text(job, kill) if kill else "nothing that was read says how"
        text = f"ended before it was seen, {told}; {who_wait(graph.waiters, 'rank')}"
        yield wordless(numbers, belongs, kill, text, proof, 0.85)
        return
    yield Finding(
        "rank_missing", "warning" if young or others else "critical", 0.5 if others else 0.6 if young else 0.85,
        f"{ranks_text(numbers)} of {world_size(job)} {of_several('is', len(numbers))} on no node in view"
        f"{f' (it should be {on_nodes(belongs)})' if belongs else ''}"
        f"{f'; {kernel_text(job, kill)}' if kill else ''}; {who_wait(graph.waiters, 'rank')}",
        ranks=numbers,
        evidence=(*((event_line(kill),) if kill else ()), *proof),
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


def gone(job_status: JobStatus) -> Iterator[Finding]:
    """rank_killed of ranks that were seen, are gone without a word, and that the others wait for.

    A rank whose log says how it failed, or that it is done, is told by that.
    """
    job, graph = job_status.job, job_status.graph
    told = by_rank(failures(job)).keys() | left_at_exit(job).keys()
    quiet = _logs_read(job_status, [s for s in job_status.of("gone") if s.rank not in told and s.held >= GONE_S])
    if not job_status.present or graph is None or not graph.waiters:
        return
    killed: dict[tuple[str, float | None], list[tuple[RankStatus, LogEvent | None]]] = defaultdict(list)
    for status in quiet:
        if not _left_by_itself(status):
            kernel = kernel_at(job, status.node, status.process.gone_at if status.process else None)
            killed[status.node, when(kernel) if kernel else None].append((status, kernel))
    for (node, _), together in killed.items():
        ranks, kernel = tuple(status.rank for status, _ in together), together[0][1]
        yield wordless(
            ranks, (node,), kernel,
            f"{of_several('has', len(ranks))} been gone for {duration(max(status.held for status, _ in together))} "
            f"without a word{f'; {kernel_text(job, kernel)}' if kernel else ''}; {who_wait(graph.waiters, 'other')} "
            f"for {'it' if len(ranks) == 1 else 'them'}",
            (*(Evidence(Observer.PROCESS, f"/proc on {node}", job.now, f"process {status.pid} is gone")
               for status, _ in together[:4]), *evidence_of(together[0][0]), *waiters_of(graph)), 0.65,
        )  # fmt: skip


def left_early(job_status: JobStatus) -> Iterator[Finding]:
    """rank_left_early: a rank's program is over, or shuts down, while others wait in a training collective.

    By the rank's own word, after which others time out or lose their connections; or live, by its stack.
    """
    job, graph = job_status.job, job_status.graph
    victims = (*said(job, "torch.watchdog_timeout"), *said(job, "gloo.timeout"), *lost_connections(job))
    exits = left_before(job, victims) if victims and not logs_behind(job_status) else ()
    waiters = set(ranks_in(victims))
    leavers: list[RankStatus] = []
    if graph is not None and graph.waiters and graph.held >= job_status.alarm_after:
        said_so = left_at_exit(job)
        exits = exits or tuple(said_so[s.rank] for s in job_status.of("gone", "missing") if s.rank in said_so)
        failed = {rank for rank, words in by_rank(failures(job)).items() if not all(one.consequence for one in words)}
        leavers = [one for one in job_status.of("gone", "leaving") if _left_by_itself(one) and one.rank not in failed]
        leavers = _logs_read(job_status, leavers)
        waiters |= {one.rank for one in graph.waiters}
    ranks = tuple(sorted({*ranks_in(exits), *(one.rank for one in leavers)}))
    if not ranks or len(ranks) > max(1, len(waiters)):
        return
    doing = listed(sorted({one.where for one in leavers if one.where}))
    nodes = homes(job, ranks) or nodes_of(leavers)
    yield Finding(
        "rank_left_early", "critical", 0.85 if graph is not None and graph.waiters else 0.75,
        f"{ranks_on(ranks, nodes)} {f'left training ({doing})' if doing else 'finished'} while "
        f"{who_wait(waiters, 'other')} in a collective",
        ranks=ranks, nodes=nodes,
        evidence=(*map(event_line, exits[:2]), *(line for one in leavers[:1] for line in evidence_of(one)),
                  *(waiters_of(graph) if graph else ()), *map(event_line, victims[:2])), advice=RAN_OUT,
    )  # fmt: skip


def _left_by_itself(status: RankStatus) -> bool:
    return status.activity is not None and status.activity.kind == "shutdown"


def _logs_read(job_status: JobStatus, ended: Sequence[RankStatus]) -> list[RankStatus]:
    """Ranks since whose end logs were read: before that a rank may have raised, which its log tells."""
    read_to = logs_read_to(job_status.job)
    return [status for status in ended if job_status.job.now - status.held <= read_to]


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


STATUS_RULES = (missing, gone, left_early, ras_away)
