"""Ranks that the others' collective cannot reach: never started, gone without a message, or at their program's end."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from hangtop.diagnosis.collectives.counts import comm_ranks
from hangtop.diagnosis.evidence.events import event_line, log_events, ranks_in
from hangtop.diagnosis.failures.first import exits, exits_before, lost_connections
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.failures.unheard import UNSEEN_LINKS, kernel_kill, logs_behind, logs_read_to
from hangtop.diagnosis.finding import Evidence, Finding, Observer, of_ranks
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, on_nodes, waiters_text
from hangtop.diagnosis.roster import homes, world_size
from hangtop.diagnosis.rules.crash import without_message
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

GONE_S = 2.0
"""Ours, seconds: when a job ends well, its ranks end within one second of each other."""
AGENT_S = 40.0
"""Seconds after which torchrun has ended all workers of a node once one failed: it looks every 5 s at most, and kills
30 s after SIGTERM."""
LOOK_FOR_IT = "Check whether its launcher started, whether hangtop was given its node, and how its log ends."
RAN_OUT = "Its data ran out first: give every rank as many batches as the others, or use torch's algorithms.join."


def missing(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing: WORLD_SIZE is larger than the number of living ranks, and these wait for no other rank.

    It is rank_killed if the node of the missing ranks is in view and either the others are past the start or the node's
    kernel killed a process. Needs every node in view, and processes older than a start may take.
    """
    job, graph, numbers = job_status.job, job_status.graph, [status.rank for status in job_status.of("missing")]
    if not numbers or graph.pattern != "held_up" or graph.held < job_status.alarm_after:
        return
    elsewhere = any(node.link in UNSEEN_LINKS for node in job.nodes.values())  # that is node_unreachable
    left = set(numbers) <= exits(job).keys() | _ended_well(job_status).keys()  # that is rank_left_early
    if elsewhere or left or any(culprit.state != "missing" for culprit in graph.culprits):
        return
    belongs, living = _nodes_beside(job, numbers), [rank for rank in job.ranks if rank.gone_at is None]
    began = max((rank.process.started for rank in living if rank.node in belongs[:1]), default=job.now)
    world = f"WORLD_SIZE={world_size(job)}, {len(job_status.present)} alive {on_nodes(belongs)}".rstrip()
    proof = (Evidence(Observer.CONTEXT, "environment of the ranks", None, world), *waiters_of(graph))
    wait = waiters_text(graph.waiters, "rank")
    if belongs and (job_status.trained or kernel_kill(job, belongs, began, job.now)):
        text = f"ended before it was seen; {wait}"
        yield without_message(job, numbers, belongs, (began, job.now), text, proof, 0.85)
        return
    youngest = max((rank.process.started for rank in living), default=job.now)
    if job.now - youngest >= START_S or job.motion.last_step is not None:
        text = f"is on no node in view, of {world_size(job)} in all; {wait}"
        yield of_ranks("rank_missing", 0.85, numbers, (), text, proof, LOOK_FOR_IT)


def _beside(job: Job, ranks: Iterable[int]) -> Mapping[int, Collection[str]]:
    """Nodes where each of these missing ranks belongs, by LOCAL_RANK and LOCAL_WORLD_SIZE of the ranks present."""
    places = ((rank, rank.process.local_rank, rank.process.local_world_size) for rank in job.ranks)
    blocks = {(rank.rank - local, size, rank.node) for rank, local, size in places if size and local is not None}
    nodes, ordered = defaultdict[int, set[str]](set), sorted(ranks)
    for first, size, node in blocks:
        for number in ordered[bisect_left(ordered, first) : bisect_left(ordered, first + size)]:
            nodes[number].add(node)
    return nodes


def _nodes_beside(job: Job, ranks: Iterable[int]) -> tuple[str, ...]:
    """All nodes where these missing ranks belong."""
    return tuple(sorted(set[str]().union(*_beside(job, ranks).values())))


def gone(job_status: JobStatus) -> Iterator[Finding]:
    """rank_killed: ranks that were seen and are gone without a message, while others wait.

    If a rank's log shows its failure or its normal end, other rules report it.
    """
    job, graph = job_status.job, job_status.graph
    if not graph.waiters:
        return
    reported = by_rank(failures(job)).keys() | exits(job).keys() | _ended_well(job_status).keys()
    together: dict[str, list[RankStatus]] = defaultdict(list)
    for status in _logs_read(job_status, job_status.of("gone")):
        if status.rank not in reported and status.held >= GONE_S:
            together[status.node].append(status)
    for node, members in together.items():
        first, held = members[0], sorted(status.held for status in members)
        text = f"has been gone for {duration(held[-1])} without a message; {waiters_text(graph.waiters, 'other')}"
        proof = Evidence(Observer.PROCESS, f"/proc on {node}", job.now, f"process {first.pid} is gone")
        yield without_message(
            job, [status.rank for status in members], (node,), (job.now - held[-1], job.now - held[0]), text,
            (proof, *evidence_of(first), *waiters_of(graph)), 0.65,
        )  # fmt: skip


def _ended_well(job_status: JobStatus) -> Mapping[int, Evidence]:
    """Ranks without a process that ended with status 0, and the proof: torchrun's agent lets the others live.

    It ends all workers of its node as soon as one fails; so nothing since their start may tell of a fault.
    """
    job = job_status.job
    began = min((rank.process.started for rank in job.ranks if rank.gone_at is None), default=inf)
    ends = [*(failure.at for failure in failures(job)), *(event.at for event in log_events(job, "elastic.signal"))]
    if not job.live or any(at is None or at >= began for at in ends):
        return {}
    ended = {status.rank: status.node for status in job_status.of("gone") if status.held >= AGENT_S}
    belongs = _beside(job, [status.rank for status in job_status.of("missing")])
    ended |= {rank: next(iter(nodes)) for rank, nodes in belongs.items() if len(nodes) == 1}
    agents = {rank.node: rank.process.parent for rank in job.ranks
              if rank.gone_at is None and rank.process.launcher == "torchrun" and not rank.process.adopted}  # fmt: skip
    proofs = {
        node: Evidence(
            Observer.PROCESS, f"torchrun on {node}", job.now,
            f"process {agents[node]} lets the other ranks live: none of its ranks failed",
        )
        for node in {*ended.values()} & agents.keys() if not kernel_kill(job, (node,), began, job.now)
    }  # fmt: skip
    return {rank: proofs[node] for rank, node in ended.items() if node in proofs}


def left_early(job_status: JobStatus) -> Iterator[Finding]:
    """rank_left_early: a rank's program is over, or shuts down, while others wait in a training collective.

    Known by the rank's own exit message before others time out or lose their connections; or live, by its stack, or
    because torchrun lets the others live.
    """
    job, graph = job_status.job, job_status.graph
    victims = (*log_events(job, "torch.watchdog_timeout"), *log_events(job, "gloo.timeout"), *lost_connections(job))
    left = exits_before(job, victims) if victims and not logs_behind(job_status) else ()
    waiters = set(ranks_in(victims))
    leavers: list[RankStatus] = []
    ended: Mapping[int, Evidence] = {}
    if graph.waiters and graph.held >= job_status.alarm_after:
        done = exits(job)
        left = left or tuple(done[status.rank] for status in job_status.of("gone", "missing") if status.rank in done)
        failed = {failure.rank for failure in failures(job) if not failure.consequence}
        leavers = [status for status in _logs_read(job_status, job_status.of("leaving")) if status.rank not in failed]
        ended = _ended_well(job_status)
        waiters |= {status.rank for status in graph.waiters}
    ranks = {*ranks_in(left), *(status.rank for status in leavers), *ended}
    if not ranks or len(ranks) > max(1, len(waiters)):
        return
    doing = listed(sorted({status.where for status in leavers if status.where}))
    yield of_ranks(
        "rank_left_early", 0.7 if ended else 0.85 if graph.waiters else 0.75, ranks,
        homes(job, ranks) or nodes_of(leavers) or _nodes_beside(job, ranks),
        f"{f'left training ({doing})' if doing else 'finished'} while {waiters_text(waiters, 'other')} in a collective",
        (*map(event_line, left[:2]), *[*ended.values()][:1],
         *(line for status in leavers[:1] for line in evidence_of(status)), *waiters_of(graph),
         *map(event_line, victims[:2])), RAN_OUT,
    )  # fmt: skip


def _logs_read(job_status: JobStatus, ended: Sequence[RankStatus]) -> list[RankStatus]:
    """Ranks whose logs were read past their end: until then, an unread line may hold the rank's exception."""
    read_to = logs_read_to(job_status.job)
    return [status for status in ended if job_status.job.now - status.held <= read_to]


def unanswered(job: Job) -> Iterator[Finding]:
    """rank_missing by a saved report of NCCL RAS: it is INCOMPLETE, without data of these ranks.

    The processes of a live job show more.
    """
    resolver = comm_ranks(job)
    for at, report in () if job.live else sorted(job.ras, key=lambda sample: sample.at)[-1:]:
        for communicator in report.communicators:
            silent = {rank for member in communicator.ranks if not member.counts
                      and (rank := resolver.rank_of(member, communicator.size)) is not None}  # fmt: skip
            if silent:
                text = f"does not answer NCCL RAS; {count(communicator.size - len(silent), 'other')} answered"
                proof = Evidence(Observer.RAS, f"NCCL RAS, communicator {communicator.comm}", at, "INCOMPLETE")
                yield of_ranks("rank_missing", 0.7, silent, homes(job, silent), text, (proof,), LOOK_FOR_IT)


RULES = (unanswered,)
STATUS_RULES = (missing, gone, left_early)
