"""Ranks that are not there: never started, ended, or about to end, while others wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.events import event_line
from hangtop.diagnosis.failures.ends import left_at_exit
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.failures.unheard import kill_at_end, kill_of_absent, kill_told, logs_read_to
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.phrasing import duration, listed, on_nodes, ranks_on, ranks_text, who_wait
from hangtop.diagnosis.roster import started_twice, world_size
from hangtop.diagnosis.rules.stuck import begun
from hangtop.diagnosis.tables.thresholds import GONE_S, START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

ONE_NUMBER = "Two processes have one RANK: give each its own, in the script that starts them or in the host list."
OUT_OF_MEMORY = (
    "Most likely that was this rank, or what it ran: give the job more memory (cgroup, Slurm --mem, the pod's limit), "
    "or use less (data loader workers, pinned memory, what is cached)."
)
RAN_OUT = (
    "Its data ran out before the others': give every rank the same number of batches, or use "
    "torch.distributed.algorithms.join."
)
ELSEWHERE = (
    "The others are past the start, in which all take part: most likely a node that hangtop was not given runs it "
    "(name that node, too), or it has ended."
)
PROOFS = 4
UNSEEN_LINKS = ("connecting", "stale", "lost")


def missing(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing: WORLD_SIZE counts more ranks than are alive, and those that are there wait.

    It is rank_left_early where those that are not said so at the end of their programs. Needs the environment of the
    living ranks, every node in view, and stacks that show the wait. While the processes are younger than a start may
    take, it is a warning. Says of a kill for want of memory on the node where it belongs, and, without patience, of a
    number that two processes have.
    """
    absent = job_status.of("missing")
    graph = job_status.graph
    if not absent or graph is None or graph.pattern != "held_up":
        return
    twice = told_twice(job_status)
    if graph.held < job_status.alarm_after and not twice:
        return
    if any(node.link in UNSEEN_LINKS for node in job_status.job.nodes.values()):
        return  # they may well live on the node that does not answer: that is node_unreachable
    exits = left_at_exit(job_status.job)
    if exits and all(status.rank in exits for status in absent):
        yield _left_early(job_status, absent, [exits[status.rank] for status in absent])
        return
    others = [culprit for culprit in graph.culprits if culprit.state != "missing"]
    age = min(
        (job_status.job.now - rank.process.started for rank in job_status.job.ranks if rank.gone_at is None),
        default=0.0,
    )
    world = world_size(job_status.job)
    numbers = tuple(status.rank for status in absent)
    belongs = _last_nodes(job_status, numbers)
    last = f" (it should be {on_nodes(belongs)})" if belongs else ""
    kill = None if twice else kill_of_absent(job_status.job, belongs)
    killed = f"; {kill_told(job_status.job, kill)}" if kill else ""
    young = age < START_S and job_status.job.motion.last_step is None
    yield Finding(
        "rank_missing", "warning" if young or others else "critical", 0.5 if others else 0.6 if young else 0.85,
        f"{ranks_text(numbers)} of {world} {'is' if len(numbers) == 1 else 'are'} on no node in view{last}{twice}"
        f"{killed}; {who_wait(graph.waiters, 'rank')}",
        ranks=numbers,
        evidence=(
            Evidence("environment of the ranks", None, f"WORLD_SIZE={world}, {len(job_status.present)} alive"),
            *((event_line(kill),) if kill else ()),
            *waiters_of(graph),
        ),
        advice=ONE_NUMBER
        if twice
        else OUT_OF_MEMORY
        if kill
        else ELSEWHERE
        if begun(job_status.of("waiting"))
        else "Look for them: did their launcher start, is their node in the list that hangtop was given, what do "
        "their logs say last?",
    )  # fmt: skip


def told_twice(job_status: JobStatus) -> str:
    """``; rank 1 was started twice (processes 71 and 72 on node1)``; empty where every rank was started once."""
    told = []
    for one, other in started_twice(job_status.job):
        pids = f"{one.process.pid} and {other.process.pid}" if one.node == other.node else ""
        where = f"processes {pids} {on_nodes((one.node,))}" if pids else on_nodes((one.node, other.node))
        told.append(f"{ranks_text((one.rank,))} was started twice ({where})")
    return f"; {listed(told)}" if told else ""


def _last_nodes(job_status: JobStatus, ranks: Sequence[int]) -> tuple[str, ...]:
    """Nodes where missing ranks belong, by the ranks of their neighbourhood that are there."""
    homes = set()
    for rank in job_status.job.ranks:
        size, local = rank.process.local_world_size, rank.process.local_rank
        if size and local is not None:
            first = rank.rank - local
            if any(first <= number < first + size for number in ranks):
                homes.add(rank.node)
    return tuple(sorted(homes))


def ended(job_status: JobStatus) -> Iterator[Finding]:
    """rank_killed and rank_left_early of a rank that was seen, is gone without a word, and that the others wait for.

    Needs the process to have been seen; a rank whose log says how it failed is a matter of the rules on failures. One
    that was last seen shutting down, or that said so at its program's end, left by itself; any other was most likely
    killed.
    """
    told = by_rank(failures(job_status.job))
    gone = _logs_read(job_status, [s for s in job_status.of("gone") if s.rank not in told and s.held >= GONE_S])
    staying = job_status.present
    if not gone or not staying or not (job_status.graph and job_status.graph.waiters):
        return
    exits = left_at_exit(job_status.job)
    left = [
        status
        for status in gone
        if status.rank in exits or (status.activity is not None and status.activity.kind == "shutdown")
    ]
    killed: dict[tuple[str, str, str], list[tuple[RankStatus, LogEvent | None]]] = defaultdict(list)
    for status in gone:
        if status not in left:
            label = status.activity.label if status.activity else ""
            at = status.process.gone_at if status.process else None
            kill = None if at is None else kill_at_end(job_status.job, status.node, at)
            killed[status.node, label, kill_told(job_status.job, kill) if kill else ""].append((status, kill))
    for (_, label, told_of), found in killed.items():
        yield _gone(job_status.graph, [status for status, _ in found], label, found[0][1], told_of)
    if left:
        yield _left_early(job_status, left, [exits[status.rank] for status in left if status.rank in exits])


def _gone(graph: WaitGraph, together: Sequence[RankStatus], label: str, kill: LogEvent | None, told_of: str) -> Finding:
    """Ranks of one node that are gone, did the same when they were last seen, and of whose kill the same is told."""
    one = len(together) == 1
    last = f"; last seen {label}" if label else ""
    killed = f"; {told_of}" if told_of else ""
    ranks, node = tuple(status.rank for status in together), together[0].node
    return Finding(
        "rank_killed", "critical", 0.85 if kill else 0.65,
        f"{ranks_on(ranks, [node])} {'has' if one else 'have'} been gone for "
        f"{duration(max(status.held for status in together))} without a word{last}{killed}; "
        f"{who_wait(graph.waiters, 'other')} for {'it' if one else 'them'}",
        ranks=ranks, nodes=(node,),
        evidence=(
            *map(_gone_proof, together[:PROOFS]),
            *((event_line(kill),) if kill else ()),
            *evidence_of(together[0]),
            *waiters_of(graph),
        ),
        advice=OUT_OF_MEMORY
        if kill
        else "A rank that writes nothing was killed from outside (out of memory, the batch system, somebody) or "
        "ended by itself: look at the kernel log of its node and at its launcher's last lines.",
    )  # fmt: skip


def leaving(job_status: JobStatus) -> Iterator[Finding]:
    """rank_left_early: a rank shuts down while others wait in a training collective.

    Needs stacks: destroy_process_group, atexit or the interpreter's end on this rank, a collective on the others.
    """
    graph = job_status.graph
    leavers = [culprit for culprit in graph.culprits if culprit.state == "leaving"] if graph else []
    if not leavers or graph is None or graph.held < job_status.alarm_after:
        return
    told = by_rank(failures(job_status.job))
    quiet = _logs_read(job_status, [s for s in leavers if all(f.consequence for f in told.get(s.rank, ()))])
    if quiet:
        yield _left_early(job_status, quiet)


def _logs_read(job_status: JobStatus, ended: Sequence[RankStatus]) -> list[RankStatus]:
    """Those since whose end logs were read: before that one may have raised, which its log tells."""
    read_to = logs_read_to(job_status.job)
    return [status for status in ended if job_status.job.now - status.held <= read_to]


def _left_early(job_status: JobStatus, leavers: Sequence[RankStatus], exits: Sequence[LogEvent] = ()) -> Finding:
    graph = job_status.graph
    waiters = graph.waiters if graph else ()
    numbers = tuple(status.rank for status in leavers)
    doing = listed(sorted({status.where for status in leavers if status.where}))
    if exits:
        doing = "its program is over" if len(leavers) == 1 else "their programs are over"
    return Finding(
        "rank_left_early", "critical", 0.85,
        ranks_on(numbers, (s.node for s in leavers)) + " left training"
        f"{f' ({doing})' if doing else ''} while {who_wait(waiters, 'other')} in it",
        ranks=numbers,
        nodes=nodes_of(leavers),
        evidence=(*map(event_line, exits[:2]), *evidence_of(leavers[0]), *(waiters_of(graph) if graph else ())),
        advice=RAN_OUT,
    )  # fmt: skip


def _gone_proof(status: RankStatus) -> Evidence:
    process = status.process
    pid = process.process.pid if process else 0
    return Evidence(
        f"/proc on {status.node}", process.gone_at if process else None, f"process {pid} is no longer there"
    )
