"""Which rank failed first: it raised, was killed, or left no message.

The finding is about the first end that is no consequence of another. If every rank with a message is a victim, the
culprit is the rank without a message, or else what ended the whole job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import event_line, hosts_in, lines, log_events, ranks_in
from hangtop.diagnosis.failures.first import RankEnd, ended_ranks, exits_before, first_failure, lost_connections
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, TIME_OUTS, Failure
from hangtop.diagnosis.failures.unheard import kernel_kill, kernel_text, logs_behind, silent_ranks
from hangtop.diagnosis.finding import Evidence, Finding, of_ranks
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed, ranks_text
from hangtop.diagnosis.roster import homes, known_ranks, world_size
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.waits.job_status import JobStatus

MORE_MEMORY = "Give the job more memory (cgroup, Slurm --mem, the pod's limit), or use less (loader workers, caches)."
LOOK_FOR_THE_KILL = (
    "A rank that ends without a message was killed, faulted, or left early with status 0 (torchrun then lets the "
    "others run): see the last lines of its log, its node's kernel log and the batch system's accounting."
)
RECORD = "Look at that rank's own output: torchrun --tee 3 --log-dir DIR, or @record around the main function."
SAYS_NOT_WHY = "NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks."


def first_to_fail(job_status: JobStatus) -> Iterator[Finding]:
    """rank_crashed, rank_killed or child_failed_no_detail: the first end that is no consequence of another.

    In a live job only ranks count whose process is gone or shuts down.
    """
    job, ends = job_status.job, ended_ranks(job_status)
    first, closed = first_failure(ends), lost_connections(job)
    gone = [end.rank for end in ends if end.rank is not None and all(map(_only_gone, end.reports))]
    if first is None or (closed and first.rank in gone):
        if not logs_behind(job_status):
            yield from _all_victims(job, ends, closed) if first is None else [_left_no_message(job, gone, closed)]
        return
    alike = [first, *(end for end in ends if end is not first and _alike(end.cause, first.cause))]
    if first.killed:
        yield _killed(job, first)
    elif not first.bare:
        if not _wait_says_more(job, first.cause):
            yield _crashed(job, ends, alike)
    elif not nccl_failures(job):
        text = f"failed first: {first.cause.text}; what it raised is not in what was read"
        yield _ended(job, "child_failed_no_detail", 0.5 if logs_behind(job_status) else 0.7, alike, text, RECORD)


def _only_gone(report: Failure) -> bool:
    """A launcher's report, without an exit code, that the process is gone."""
    return report.event.kind == "launcher.exit" and report.bare and "exitcode" not in report.event.data


def _ended(job: Job, kind: str, weight: float, ends: Sequence[RankEnd], text: str, advice: str) -> Finding:
    """A finding about ranks that ended, the first one first; ``text`` follows ``rank 3 on node2``.

    Without a known rank, the text says ``local rank 3`` if a label or a log file's name shows it, else ``a rank``.
    """
    ranks = {end.rank for end in ends if end.rank is not None}
    reports = [*ends[0].reports[:3], *(end.cause for end in ends[1:3])]
    nodes = homes(job, ranks) or sorted({report.event.host for end in ends for report in end.reports} - {""})
    local = {number_of(end.cause.event, "local_rank") for end in ends}
    unnamed = f"local rank {local.pop()}" if len(local) == 1 and None not in local else "a rank"
    proof = [event_line(report.event) for report in reports]
    return of_ranks(kind, weight, ranks, nodes, text, proof, advice, unnamed=unnamed)


def _crashed(job: Job, ends: Sequence[RankEnd], alike: Sequence[RankEnd]) -> Finding:
    """rank_crashed by the earliest exception, signal or abort; ranks with the same one share the finding."""
    cause = alike[0].cause
    others = len({end.rank for end in ends} - {end.rank for end in alike} - {None})
    after = f"; {count(others, 'other')} failed afterwards" if others else ""
    return _ended(
        job, "rank_crashed", 0.9 if cause.at is not None or len(ends) == len(alike) else 0.75, alike,
        f"failed first: {cause.text}{after}",
        "Correct this error first" + (": those of the others follow from it." if others else "."),
    )  # fmt: skip


def _alike(other: Failure, first: Failure) -> bool:
    """Whether both are the same exception at the same line, or the same exit or signal at one time or in one line."""
    if other.consequence or (other.manner, other.what, other.frame) != (first.manner, first.what, first.frame):
        return False
    return other.event.kind == "python.exception" or other.event is first.event or other.at == first.at is not None


def _killed(job: Job, end: RankEnd) -> Finding:
    memory = any(report.manner == "memory" or text_of(report.event, "reason") == "OOMKilled" for report in end.reports)
    memory = memory or any(  # Slurm does not name the task that the kernel killed out of memory
        event.rank is None and "task" not in event.data and event.host in ("", end.cause.event.host)
        for event in log_events(job, "slurm.out_of_memory")
    )
    by = "the kernel: out of memory" if memory else "SIGKILL from outside (out of memory, a batch system, a user)"
    advice = MORE_MEMORY if memory else LOOK_FOR_THE_KILL
    return _ended(job, "rank_killed", 0.95 if memory else 0.88, [end], f"was killed by {by}", advice)


def _wait_says_more(job: Job, first: Failure) -> bool:
    """Whether a rule about the wait says more of the first failure than that the rank crashed."""
    in_torch = "torch/distributed" in " ".join(words_of(first.event, "frames"))
    return first.signature in TIME_OUTS or (in_torch and bool(log_events(job, "torch.unresolved")))


# --- all ranks with a message are victims ------------------------------------------------------------------------


def _all_victims(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Iterator[Finding]:
    """The ranks without a message, by elimination; else what ended the whole job."""
    if closed and exits_before(job, closed):
        return  # that is rank_left_early
    timed_out = {event.rank for event in log_events(job, "torch.watchdog_timeout")}
    aimless = all(end.rank in timed_out or text_of(end.cause.event, "type") == "KeyboardInterrupt" for end in ends)
    victims = {end.rank for end in ends}
    silent = () if aimless and not closed else silent_ranks(job, victims, closed)
    # While an unaffected rank lives, a rank that was never seen may have ended well: that is rank_missing.
    waits = any(rank.gone_at is None and rank.rank not in victims | set(ranks_in(closed)) for rank in job.ranks)
    if job.live and waits and job.world_size is not None:
        silent = tuple(sorted({rank.rank for rank in job.ranks if rank.gone_at is not None} & {*silent}))
    nccl = [end for end in ends if end.cause.signature == "nccl" and not end.cause.event.data.get("consequence")]
    if silent:
        yield _left_no_message(job, silent, closed or [end.cause.event for end in ends])
    elif nccl and not nccl_failures(job):
        yield _ended(job, "rank_crashed", 0.5, nccl, f"failed in NCCL: {nccl[0].cause.what}", SAYS_NOT_WHY)
    else:
        yield from _ended_from_outside(job, ends)


def _left_no_message(job: Job, ranks: Sequence[int], closed: Sequence[LogEvent]) -> Finding:
    """rank_killed: ranks without a message to which others lost their connections."""
    at = min((event.at for event in closed if event.at is not None), default=inf)
    text = f"left no message, and {count(len(set(ranks_in(closed))), 'other')} lost the connection to it"
    return without_message(job, ranks, homes(job, ranks), (at, at), text, map(event_line, closed[:3]), 0.7)


def without_message(
    job: Job, ranks: Sequence[int], nodes: Sequence[str], ended: tuple[float, float], text: str,
    proof: Iterable[Evidence], weight: float,
) -> Finding:  # fmt: skip
    """rank_killed: ranks without a message that ended between these times; their kernel's log may show how.

    ``text`` follows ``rank 3 on node2``.
    """
    if (kill := kernel_kill(job, nodes, *ended)) is None:
        return of_ranks("rank_killed", weight, ranks, nodes, text, proof, LOOK_FOR_THE_KILL)
    advice = LOOK_FOR_THE_KILL if kill.kind == "kernel.segfault" else MORE_MEMORY
    text, proof = f"{text}; {kernel_text(job, kill)}", (event_line(kill), *proof)
    return of_ranks("rank_killed", 0.85, ranks, nodes, text, proof, advice)


def _ended_from_outside(job: Job, ends: Sequence[RankEnd]) -> Iterator[Finding]:
    """rank_killed by a batch system, by a user, or by a launcher whose reason is not in the logs."""
    outside = [*log_events(job, "slurm.cancelled"), *log_events(job, "elastic.signal")]
    signalled = [end for end in ends if any(report.signal in ENDING_SIGNALS for report in end.reports)]
    if not outside and (not ends or len(signalled) < len(ends)):
        return
    reason = text_of(outside[0], "reason").lower() if outside else ""
    # a notice comes before the end, and may be withdrawn: living ranks were not ended
    lives = job.live and not signalled and any(rank.gone_at is None for rank in job.ranks)
    sign = text_of(outside[0], "signal").removeprefix("SIG") if outside else ""
    by_user = reason == "user" or sign in ("INT", "HUP")
    by = "by its user" if by_user else f"from outside{f': {reason}' if reason else ''}"
    proof = [*outside[:2], *(end.cause.event for end in signalled[:2])]
    yield Finding(
        "rank_killed", "info" if by_user or lives else "critical", 0.8 if reason else 0.5,
        f"the job was ended {by}; no rank failed by itself",
        nodes=tuple(sorted({event.host for event in proof} - {""}))[:8], evidence=tuple(map(event_line, proof)),
        advice="No rank is to blame. If it should have gone on, look at the batch system's reason.",
    )  # fmt: skip


def remote_error(job: Job) -> Iterator[Finding]:
    """nccl_remote_error: connections closed by the peer. A consequence: the peer failed first.

    No finding if every rank of a live job is alive: then the peer belonged to an earlier attempt.
    """
    events = lost_connections(job)
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    world = world_size(job) or 0
    if events and not (world and living.issuperset(range(world))):
        silent = known_ranks(job) - {event.rank for event in job.events if event.kind != "log.end"} - living
        unheard = f"; there is no message from {ranks_text(silent)}" if ranks_in(events) and silent else ""
        peers = {peer for event in events if (peer := text_of(event, "peer")).startswith("rank ")}
        lost = listed(sorted(peers)) or "a peer, which ended first"
        yield Finding(
            "nccl_remote_error", "critical", 0.5,
            f"{ranks_text(ranks_in(events)) or 'a rank'} lost {lost}{unheard}",
            nodes=hosts_in(job, events), evidence=lines(events),
            advice="These ranks are victims: look for the rank that they name, and for the one that left no message.",
        )  # fmt: skip


RULES = (remote_error,)
STATUS_RULES = (first_to_fail,)
