"""Which rank failed first: it raised, was killed, or left no word.

The first end that is no consequence of another is told. Where every rank that speaks is a victim, it is the rank that
left no word; else it is who ended them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when, words_of
from hangtop.diagnosis.evidence.events import event_line, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import RankEnd, ended_ranks, first_failure, left_before, lost_connections
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, Failure
from hangtop.diagnosis.failures.unheard import KILLS, kernel_at, kernel_text, logs_behind, silent_ranks
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed, of_several, on_nodes, ranks_on, ranks_text, who
from hangtop.diagnosis.roster import homes, known_ranks, world_size
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.waits.job_status import JobStatus

TOLD_TO_END = frozenset({"Terminated", "Interrupt", "Hangup"})
"""Signals, in strsignal's words, by which a data loader's worker is ended with its rank."""
TIME_OUTS = frozenset({"store", "rendezvous", "collective_timeout", "fingerprint"})
"""Signatures of exceptions by which a wait ended: rules on what was waited for say more."""
MORE_MEMORY = (
    "Give the job more memory (cgroup, Slurm --mem, the pod's limit), or use less (data loader workers, pinned memory, "
    "what is cached)."
)
LOOK_FOR_THE_KILL = (
    "A rank that writes nothing was killed from outside (out of memory, the batch system, somebody) or ended by "
    "itself: look at the kernel log of its node and at the batch system's accounting."
)
SEGFAULT = (
    "Compiled code that it called crashed (a C extension, a library, a driver): with PYTHONFAULTHANDLER=1 Python "
    "writes where. Look whether it is always the same node (memory)."
)


def first_to_fail(job_status: JobStatus) -> Iterator[Finding]:
    """rank_crashed, rank_killed or child_failed_no_detail: the first end that is no consequence of another.

    Of a live job only ranks count whose process is gone or shuts down.
    """
    job, closed = job_status.job, lost_connections(job_status.job)
    ends = ended_ranks(job_status)
    first = first_failure(ends)
    if first is None:
        if not logs_behind(job_status):
            yield from _all_victims(job, ends, closed)
    elif first.killed:
        yield _killed(job, first)
    elif first.unheard and closed:
        if not logs_behind(job_status):
            unheard = {end.rank for end in ends if end.unheard and end.rank is not None}
            yield _left_no_word(job, sorted(unheard), closed)
    elif first.bare:
        if not nccl_failures(job):
            yield _no_detail(job_status, ends, first.cause)
    elif not _told_elsewhere(job, first.cause):
        yield _crashed(job_status, ends, first)


def _crashed(job_status: JobStatus, ends: Sequence[RankEnd], first: RankEnd) -> Finding:
    """The earliest exception, signal or abort; ranks that ended by the same one together; where the others hang."""
    failure = first.cause
    alike = [end for end in ends if end is first or _alike(end.cause, failure)]
    ranks = tuple(sorted({end.rank for end in alike if end.rank is not None}))
    others = len({end.rank for end in ends} - {*ranks, None})
    after = f"; {count(others, 'other')} fell over afterwards" if others else ""
    graph = job_status.graph
    hang = [point for point in graph.points if not set(ranks) & set(point.ranks)] if graph is not None else []
    if hang:
        after += f"; {ranks_text(hang[0].ranks)} {of_several('waits', len(hang[0].ranks))} {hang[0].told}"
    return _ended(
        job_status.job, "rank_crashed", 0.9 if failure.at is not None or len(ends) == len(alike) else 0.75, ranks,
        [end.cause for end in alike], f"failed first: {failure.told}{after}", [word.event for word in first.words[:3]],
        "Mend this one; the other ranks' errors follow from it." if others else "Look at the first traceback.",
    )  # fmt: skip


def _alike(one: Failure, first: Failure) -> bool:
    """The same exception at the same line, or the same exit or signal in one second or by one line of a log."""
    if one.manner == first.manner == "exception":
        return (one.what, one.frame) == (first.what, first.frame)
    line = one.event.line > 0 and (one.event.source, one.event.line) == (first.event.source, first.event.line)
    same = (one.manner, one.what, one.consequence) == (first.manner, first.what, False)
    return same and (bool(first.signal) or one.manner == "exit") and (line or one.at == first.at is not None)


def _killed(job: Job, end: RankEnd) -> Finding:
    memory = any(word.manner == "memory" or text_of(word.event, "reason") == "OOMKilled" for word in end.words)
    memory = memory or any(  # Slurm says of no task by name that the kernel killed one for want of memory
        event.rank is None and "task" not in event.data and event.host in ("", end.cause.host)
        for event in said(job, "slurm.out_of_memory")
    )
    by = "the kernel: out of memory" if memory else "SIGKILL from outside (out of memory, a batch system, somebody)"
    return _ended(
        job, "rank_killed", 0.95 if memory else 0.88, () if end.rank is None else (end.rank,), [end.cause],
        f"was killed by {by}", [word.event for word in end.words[:4]], MORE_MEMORY if memory else LOOK_FOR_THE_KILL,
    )  # fmt: skip


def _told_elsewhere(job: Job, first: Failure) -> bool:
    """Whether a rule on what was waited for says more of the first failure than that the rank crashed."""
    unresolved = bool(said(job, "torch.unresolved")) and "torch/distributed" in " ".join(
        words_of(first.event, "frames")
    )
    worker = first.signature == "worker_died" and bool(said(job, "torch.worker_died"))
    return unresolved or worker or first.signature in TIME_OUTS


def _no_detail(job_status: JobStatus, ends: Sequence[RankEnd], first: Failure) -> Finding:
    """A launcher's exit code, or a traceback without its end, is all that is known of the first failure."""
    alike = [end.cause for end in ends if end.cause is first or _alike(end.cause, first)]
    ranks = tuple(sorted({failure.rank for failure in alike if failure.rank is not None}))
    unread = logs_behind(job_status)
    why = "; its log is not read to the end yet" if unread else ", and no traceback was recorded"
    return _ended(
        job_status.job, "child_failed_no_detail", 0.5 if unread else 0.7, ranks, alike,
        f"failed{' in the same second' if len(ranks) > 1 else ' first'} with {first.told}"
        f"{why if first.manner == 'exit' else ''}",
        [failure.event for failure in alike[:3]],
        "Decorate the main function with torch.distributed.elastic.multiprocessing.errors.record, or start with "
        "torchrun --tee 3 --log-dir DIR, and look at that rank's own output.",
    )  # fmt: skip


def _ended(job: Job, kind: str, weight: float, ranks: Sequence[int], failed: Sequence[Failure], text: str,
           proof: Sequence[LogEvent], advice: str) -> Finding:  # fmt: skip
    """A finding about ranks that ended; ``text`` goes on after ``rank 3 on node2``.

    Where no rank is known, it is ``local rank 3`` by a label or a file that tells only that, else ``a rank``.
    """
    nodes = homes(job, ranks) or tuple(sorted({failure.host for failure in failed} - {""}))
    local = {number_of(failure.event, "local_rank") for failure in failed}
    number = next(iter(local)) if len(local) == 1 else None
    named = who(ranks, "a rank" if number is None else f"local rank {number}")
    return Finding(
        kind, "critical", weight, " ".join(filter(None, (named, on_nodes(nodes) if ranks else "", text))),
        ranks=tuple(ranks), nodes=nodes, evidence=tuple(map(event_line, proof)), advice=advice,
    )  # fmt: skip


# --- all who speak are victims ------------------------------------------------------------------------------------


def _all_victims(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Iterator[Finding]:
    """Which rank left no word, by elimination; else who ended them all."""
    if closed and left_before(job, closed):
        return  # that is rank_left_early
    timed_out = {event.rank for event in said(job, "torch.watchdog_timeout")}
    aimless = all(end.rank in timed_out or text_of(end.cause.event, "type") == "KeyboardInterrupt" for end in ends)
    victims = {end.rank for end in ends}
    silent = () if aimless and not closed else silent_ranks(job, victims, closed)
    # While a rank lives that lost no connection, a rank that was never seen may have ended well: it is missing.
    waits = any(one.gone_at is None and one.rank not in victims | set(ranks_in(closed)) for one in job.ranks)
    gone = {one.rank for one in job.ranks if one.gone_at is not None}
    if job.live and waits and job.world_size is not None:
        silent = tuple(rank for rank in silent if rank in gone)
    if silent:
        yield _left_no_word(job, silent, closed or [end.cause.event for end in ends])
        return
    nccl = [end.cause for end in ends if end.cause.signature == "nccl" and not end.cause.event.data.get("consequence")]
    outside = [event for kind in ("slurm.cancelled", "elastic.signal") for event in said(job, kind)]
    signalled = bool(ends) and all(any(word.signal in ENDING_SIGNALS for word in end.words) for end in ends)
    if nccl and not nccl_failures(job):
        yield _ended(
            job, "rank_crashed", 0.5, tuple(sorted({one.rank for one in nccl if one.rank is not None})), nccl,
            f"failed in NCCL: {nccl[0].what}", [one.event for one in nccl[:3]],
            "NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
        )  # fmt: skip
    elif outside or signalled:
        yield _ended_from_outside(job, ends if signalled else (), outside)


def _left_no_word(job: Job, ranks: Sequence[int], closed: Sequence[LogEvent]) -> Finding:
    """Ranks without a word, to which others lost their connections: killed, as a rule."""
    victims, nodes = set(ranks_in(closed)), homes(job, ranks)
    at = min((event.at for event in closed if event.at is not None), default=None)
    kernel = kernel_at(job, nodes[0], at) if len(nodes) == 1 else None
    lost = f"{count(len(victims), 'other')} lost" if victims else "the others lost"
    return wordless(
        ranks, nodes, kernel,
        f"left no word, and {lost} the connection to {'it' if len(ranks) == 1 else 'them'}: "
        f"{kernel_text(job, kernel) if kernel else 'killed, or ended by itself'}",
        tuple(map(event_line, closed[:3])), 0.7,
    )  # fmt: skip


def wordless(ranks: Sequence[int], nodes: Sequence[str], kernel: LogEvent | None, text: str,
              proof: Sequence[Evidence], weight: float) -> Finding:  # fmt: skip
    """rank_killed of ranks that left no word; rank_crashed where the kernel tells of a segmentation fault there."""
    fault = kernel is not None and kernel.kind == "kernel.segfault"
    return Finding(
        "rank_crashed" if fault else "rank_killed", "critical", 0.85 if kernel else weight,
        f"{ranks_on(ranks, nodes)} {text}", ranks=tuple(ranks), nodes=tuple(nodes),
        evidence=(*((event_line(kernel),) if kernel else ()), *proof),
        advice=LOOK_FOR_THE_KILL if kernel is None else SEGFAULT if fault else MORE_MEMORY,
    )  # fmt: skip


def _ended_from_outside(job: Job, ends: Sequence[RankEnd], outside: Sequence[LogEvent]) -> Finding:
    """All were told to end: by a batch system, by somebody, or by a launcher whose own reason is not in the logs."""
    reason = text_of(outside[0], "reason").replace("_", " ") if outside else ""
    # a notice comes before the end, and a job may be spared: ranks that live were not ended
    lives = job.live and not ends and any(rank.gone_at is None for rank in job.ranks)
    by_user = bool(outside) and all(
        text_of(event, "reason") == "user" or text_of(event, "signal").removeprefix("SIG") in ("INT", "HUP")
        for event in outside
    )
    by = "by its user" if by_user else f"from outside{f': {reason}' if reason else ''}"
    proof = [*outside[:2], *(end.cause.event for end in ends[:2])]
    return Finding(
        "rank_killed", "info" if by_user or lives else "critical", 0.8 if reason else 0.5,
        f"the job {'is to be' if lives else 'was'} ended {by}; no rank failed by itself",
        nodes=tuple(sorted({event.host for event in proof} - {""}))[:8], evidence=tuple(map(event_line, proof)),
        advice="No rank is to blame. If it should have gone on, look at the batch system's reason.",
    )  # fmt: skip


def remote_error(job: Job) -> Iterator[Finding]:
    """nccl_remote_error: connections closed by the peer. A consequence: the peer failed first.

    Where every rank of a live job is there, the peer was one of an earlier attempt.
    """
    events = lost_connections(job)
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    world = world_size(job) or 0
    if events and not (world and living.issuperset(range(world))):
        ranks, nodes = ranks_in(events), hosts_in(job, events)
        peers = sorted({text_of(event, "peer") for event in events} - {""})
        silent = known_ranks(job) - {event.rank for event in job.events if event.kind != "log.end"} - living
        wordless = f"; of {ranks_text(silent)} there is no word" if ranks and silent else ""
        yield Finding(
            "nccl_remote_error", "critical", 0.5,
            f"{who(ranks, f'ranks on {listed(nodes)}' if nodes else 'ranks')} lost {listed(peers, 2) or 'a peer'}, "
            f"which ended first{wordless}",
            nodes=nodes, evidence=lines(events),
            advice="These ranks are victims: look for the rank that they name, and for the one that left no word.",
        )  # fmt: skip


def worker_died(job: Job) -> Iterator[Finding]:
    """rank_crashed through a data loader's worker that was killed or crashed; host_out_of_memory by the kernel's word.

    One that ended by SIGBUS is limit_reached, and one that was told to end (SIGTERM) was ended with its rank.
    """
    events = [
        event for event in said(job, "torch.worker_died")
        if text_of(event, "reason") not in ("bus", "timeout") and text_of(event, "signal") not in TOLD_TO_END
    ]  # fmt: skip
    if not events:
        return
    first, reason = events[0], text_of(events[0], "reason") or "ended"
    ranks, worker = ranks_in([first]), number_of(first, "worker_pid")
    kills = [event for event in said(job, "kernel.oom") if worker is not None and number_of(event, "pid") == worker]
    nodes = homes(job, ranks)
    beside = kernel_at(job, nodes[0], when(first)) if reason == "killed" and len(nodes) == 1 else None
    kills = kills or ([beside] if beside is not None and beside.kind in KILLS else [])
    yield Finding(
        "host_out_of_memory" if kills else "rank_crashed", "critical", 0.9 if kills else 0.85,
        f"the kernel killed a data loader worker of {who(ranks)}: out of memory" if kills
        else f"a data loader worker of {who(ranks)} was lost: {reason}",
        ranks=ranks, nodes=hosts_in(job, [first, *kills]), evidence=lines([*kills, *events]),
        advice="Give the job more memory or use less: fewer workers, less that is cached or prefetched." if kills
        else "Killed workers are mostly out of memory: look at the kernel log; num_workers=0 shows the real error.",
    )  # fmt: skip


RULES = (remote_error, worker_died)
STATUS_RULES = (first_to_fail,)
