"""The first failure of a job: the rank that raised, was killed or is gone without a word before all others ended.

Where every rank that speaks is a victim of another one: which one, by elimination, else who ended them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import event_line, finished, ranks_in, said
from hangtop.diagnosis.failures.first import RankEnd, ended_ranks, finished_ranks, first_failure, lost_connections
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, Failure
from hangtop.diagnosis.failures.unheard import SilentRanks, kernel_at, kernel_text, logs_behind, silent_ranks
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, of_several, on_nodes, ranks_text, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.rules.nccl import retried
from hangtop.diagnosis.rules.not_launched import RAN_OUT
from hangtop.diagnosis.waits.job_status import JobStatus

TIME_OUTS = frozenset({"store", "rendezvous", "collective_timeout", "fingerprint"})
"""Signatures of exceptions by which a wait ended: rules on what was waited for say more."""
FROM_OUTSIDE = ("slurm.cancelled", "elastic.signal")
"""A batch system's word, and a launcher's that it was told to end."""
OUT_OF_MEMORY = (
    "Most likely that was this rank, or what it ran: give the job more memory (cgroup, Slurm --mem, the pod's limit), "
    "or use less (data loader workers, pinned memory, what is cached)."
)
LOOK_FOR_THE_KILL = (
    "Look at the kernel log of its node for an OOM kill or a segmentation fault, and at the batch system's accounting."
)
SEGFAULT = (
    "Compiled code that it called crashed (a C extension, a library, a driver): with PYTHONFAULTHANDLER=1 Python "
    "writes where. Look whether it is always the same node (memory)."
)
UNHEARD = 0.7
"""Weight of a kill of which no line of the kernel tells."""


def first_to_fail(job_status: JobStatus) -> Iterator[Finding]:
    """rank_crashed, rank_killed, rank_left_early or child_failed_no_detail: the first end that is no consequence.

    Live, only ranks whose process is gone or shuts down count. Where all who speak are victims, the rank that left no
    word is named.
    """
    job = job_status.job
    ends, closed = ended_ranks(job_status), lost_connections(job)
    first = first_failure(ends)
    alone = [end for end in ends if not end.cause.consequence]
    if first is None:
        if not logs_behind(job_status):
            yield from _all_victims(job, ends, closed)
    elif _was_killed(first):
        yield _killed(job, first)
    elif closed and all(end.unheard for end in alone):
        if not logs_behind(job_status):
            silent = SilentRanks(tuple(sorted({end.rank for end in alone if end.rank is not None})))
            yield _left_no_word(job, silent, [end for end in ends if end not in alone], closed)
    elif first.bare:
        if not nccl_failures(job):
            yield _no_detail(job_status, ends, first.cause)
    elif not _told_elsewhere(job, first, closed):
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
    """The same exception at the same line, or the same signal in the same second: which was first, nobody knows."""
    raised = one.manner == first.manner == "exception" and (one.what, one.frame) == (first.what, first.frame)
    return raised or (bool(first.signal) and _same_exit(one, first))


def _same_exit(one: Failure, other: Failure) -> bool:
    """Two ranks that ended with the same exit code in one second, or that one line tells of."""
    alike = (one.manner, one.what, one.consequence) == (other.manner, other.what, False)
    line = one.event.line > 0 and (one.event.source, one.event.line) == (other.event.source, other.event.line)
    return alike and (line or one.at == other.at is not None)


def _was_killed(end: RankEnd) -> bool:
    """SIGKILL or a word of the kernel about memory, and no word of the rank's own that says why."""
    own = any(
        word.manner in ("exception", "gpu_memory") or word.event.data.get("spoken") is True
        for word in end.words
        if not word.consequence
    )
    return not own and any(word.signal == "KILL" or word.manner == "memory" for word in end.words)


def _killed(job: Job, end: RankEnd) -> Finding:
    memory = any(word.manner == "memory" or text_of(word.event, "reason") == "OOMKilled" for word in end.words)
    memory = memory or any(  # Slurm says of no task by name that the kernel killed one for want of memory
        event.rank is None and "task" not in event.data and event.host in ("", end.cause.host)
        for event in said(job, "slurm.out_of_memory")
    )
    by = "the kernel: out of memory" if memory else "SIGKILL from outside (out of memory, a batch system, somebody)"
    return _ended(
        job, "rank_killed", 0.95 if memory else 0.88, () if end.rank is None else (end.rank,), [end.cause],
        f"was killed by {by}", [word.event for word in end.words[:4]],
        "Give the node's job more memory or use less (data loader workers, pinned memory, what is cached)."
        if memory else LOOK_FOR_THE_KILL,
    )  # fmt: skip


def _told_elsewhere(job: Job, end: RankEnd, closed: Sequence[LogEvent]) -> bool:
    """Whether a rule on what was waited for says more of the first failure than that the rank crashed."""
    first, frames = end.cause, " ".join(words_of(end.cause.event, "frames"))
    if not first.cut:
        unresolved = "torch/distributed" in frames and bool(said(job, "torch.unresolved"))
        worker = first.signature == "worker_died" and bool(said(job, "torch.worker_died"))
        return unresolved or worker or first.signature in TIME_OUTS
    # the end of its traceback is missing: any word of what went wrong says more
    waited = "rendezvous" in frames and (said(job, "torch.store_timeout") or said(job, "elastic.rendezvous"))
    headless = first.event.data.get("headless") is True and closed
    return bool(nccl_failures(job) or waited or headless or _timed_out(job, first))


def _no_detail(job_status: JobStatus, ends: Sequence[RankEnd], first: Failure) -> Finding:
    """A launcher's exit code is all that is known of the first failure."""
    alike = [end.cause for end in ends if end.cause is first or _same_exit(end.cause, first)]
    ranks = tuple(sorted({failure.rank for failure in alike if failure.rank is not None}))
    unread = logs_behind(job_status)
    return _ended(
        job_status.job, "child_failed_no_detail", 0.5 if unread else 0.7, ranks, alike,
        f"failed{' in the same second' if len(ranks) > 1 else ' first'} with {first.what}"
        f"{'; its log is not read to the end yet' if unread else ', and no traceback was recorded'}",
        [failure.event for failure in alike[:3]],
        "Decorate the main function with torch.distributed.elastic.multiprocessing.errors.record, or start with "
        "torchrun --tee 3 --log-dir DIR, and look at that rank's own output.",
    )  # fmt: skip


# --- all who speak are victims ------------------------------------------------------------------------------------


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


def _all_victims(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Iterator[Finding]:
    """Which rank ended first, by elimination; else who ended them all."""
    finding = _by_elimination(job, ends, closed)
    if finding is not None:
        yield finding
        return
    nccl = [end.cause for end in ends if end.cause.signature == "nccl" and not end.cause.event.data.get("consequence")]
    signalled = bool(ends) and all(any(word.signal in ENDING_SIGNALS for word in end.words) for end in ends)
    outside = [event for kind in FROM_OUTSIDE for event in said(job, kind)]
    by_launcher = signalled and not outside and bool(said(job, "launcher.killed"))
    if nccl and not (nccl_failures(job) or retried(job)):
        yield _ended(
            job, "rank_crashed", 0.5, tuple(sorted({one.rank for one in nccl if one.rank is not None})), nccl,
            f"failed in NCCL: {nccl[0].what}", [one.event for one in nccl[:3]],
            "NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
        )  # fmt: skip
    elif outside or (signalled and not by_launcher):
        yield _ended_from_outside(job, ends if signalled else (), outside)
    if not ends or by_launcher or all(word.signature == "child_failed" for end in ends for word in end.words):
        yield from _launcher_alone(job)


def _by_elimination(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Finding | None:
    """The rank that finished before others lost their connections, else the one that left no word."""
    lost_at = min((event.at for event in closed if event.at is not None), default=None)
    done = [
        event for event in finished_ranks(job) if closed and event.rank not in ranks_in(closed)
        and (event.at is None or lost_at is None or event.at <= lost_at)
        and not any(event.source == other.source and event.line > other.line and event.at is None for other in closed)
    ]  # fmt: skip
    if done:
        text = "finished, and others then lost the connection"
        return _ended(job, "rank_left_early", 0.7, ranks_in(done), (), text, [*done[:2], *closed[:2]], RAN_OUT)
    silent = silent_ranks(job, {end.rank for end in ends}, closed)
    points_nowhere = all(
        _timed_out(job, end.cause) or text_of(end.cause.event, "type") == "KeyboardInterrupt" for end in ends
    )
    if not silent.ranks or (points_nowhere and not closed):
        return None
    # While a rank lives that lost no connection, the silent rank may have ended well: by WORLD_SIZE, it is missing.
    lost = {end.rank for end in ends} | set(ranks_in(closed))
    waits = job.live and any(rank.gone_at is None and rank.rank not in lost for rank in job.ranks)
    found = _left_no_word(job, silent, ends, closed)
    return None if waits and job.world_size is not None and found.weight <= UNHEARD else found


def _timed_out(job: Job, failure: Failure) -> bool:
    """Whether the watchdog of the failure's rank says that a collective timed out, or any does and no rank is named."""
    ranks = {event.rank for event in said(job, "torch.watchdog_timeout")}
    return bool(ranks) and (failure.rank is None or failure.rank in ranks)


def _left_no_word(job: Job, silent: SilentRanks, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Finding:
    """Ranks without a word, to which others lost their connections: killed, as a rule."""
    victims = {end.rank for end in ends if end.cause.signature != "child_failed"} - {None} | set(ranks_in(closed))
    proof = list(closed) or [end.cause.event for end in ends]
    nodes = (silent.node,) if silent.node else homes(job, silent.ranks)
    at = min((event.at for event in proof if event.at is not None), default=None)
    kernel = kernel_at(job, nodes[0], at) if len(nodes) == 1 else None
    fault = kernel is not None and kernel.kind == "kernel.segfault"
    lost = f"{count(len(victims), 'other')} lost" if victims else "the others lost"
    how = kernel_text(job, kernel) if kernel else "killed, or ended by itself"
    return Finding(
        "rank_crashed" if fault else "rank_killed", "critical", UNHEARD if kernel is None else 0.8 if fault else 0.85,
        f"{who(silent.ranks)} {on_nodes(nodes)}{' ' if nodes else ''}left no word, and {lost} the connection to "
        f"{'it' if len(silent.ranks) == 1 else 'them'}: {how}",
        ranks=silent.ranks, nodes=nodes,
        evidence=tuple(event_line(event) for event in (kernel, *proof[:3]) if event is not None),
        advice=LOOK_FOR_THE_KILL if kernel is None else SEGFAULT if fault else OUT_OF_MEMORY,
    )  # fmt: skip


def _ended_from_outside(job: Job, ends: Sequence[RankEnd], outside: Sequence[LogEvent]) -> Finding:
    """All were told to end: by a batch system, by somebody, or by a launcher whose own reason is not in the logs."""
    reason = text_of(outside[0], "reason").replace("_", " ") if outside else ""
    # a notice comes before the end, and a job may be spared: ranks that live were not ended
    lives = job.live and not ends and bool(job.ranks) and all(rank.gone_at is None for rank in job.ranks)
    by_user = bool(outside) and all(
        text_of(event, "reason") == "user" or text_of(event, "signal").removeprefix("SIG") in ("INT", "HUP")
        for event in outside
    )
    what = f"from outside{f': {reason}' if reason else ''}"
    text = f"the job was ended {'by its user' if by_user else what}; no rank failed by itself"
    proof = [*outside[:2], *(end.cause.event for end in ends[:2])]
    return Finding(
        "rank_killed", "info" if by_user or lives else "critical", 0.8 if reason else 0.5,
        f"the job is to be ended {what}; its ranks live" if lives and not by_user else text,
        nodes=tuple(sorted({event.host for event in proof} - {""}))[:8], evidence=tuple(map(event_line, proof)),
        advice="No rank is to blame. If it should have gone on, look at the batch system's reason.",
    )  # fmt: skip


def _launcher_alone(job: Job) -> Iterator[Finding]:
    """Only a launcher's own traceback, or its ending the other ranks, was recorded; a rank's words are elsewhere."""
    if job.live or any(said(job, kind) for kind in FROM_OUTSIDE):
        return
    raised = [
        event for event in said(job, "python.exception", "child_failed", "user")
        if event.data.get("launcher") is True or text_of(event, "signature") == "child_failed"
    ]  # fmt: skip
    restarts = [] if finished(job) else [e for e in said(job, "elastic.restart") if "attempts_left" in e.data]
    events = raised or [*said(job, "launcher.killed"), *restarts]
    if not events or (all(event.data.get("cut") is True for event in raised) and said(job, "torch.store_timeout")):
        return
    yield Finding(
        "child_failed_no_detail", "critical", 0.6 if raised else 0.5,
        "a rank failed, and only its launcher's words were recorded: nothing tells which rank, and why",
        nodes=tuple(sorted({event.host for event in events} - {""})), evidence=tuple(map(event_line, events[:3])),
        advice="Look at the output of the ranks, above the launcher's: the cause stands there. Where the launcher "
        "failed in its rendezvous: does the agent at the rendezvous endpoint run, and can this node reach it?",
    )  # fmt: skip
