"""Jobs in which every rank that speaks is a victim of another one: which one, by elimination, else who ended them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import event_line, finished, ranks_in, said
from hangtop.diagnosis.failures.first import RankEnd, finished_ranks
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, Failure
from hangtop.diagnosis.failures.unheard import SilentRanks, ended_well, kernel_at, kernel_text, silent_ranks
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, on_nodes, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.rules.nccl import retried
from hangtop.diagnosis.rules.not_launched import RAN_OUT

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


def ended_finding(job: Job, kind: str, weight: float, ranks: Sequence[int], failed: Sequence[Failure], text: str,
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


def all_victims(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Iterator[Finding]:
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
        yield ended_finding(
            job, "rank_crashed", 0.5, tuple(sorted({one.rank for one in nccl if one.rank is not None})), nccl,
            f"failed in NCCL: {nccl[0].what}", [one.event for one in nccl[:3]],
            "NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
        )  # fmt: skip
    elif outside or (signalled and not by_launcher):
        yield _ended_from_outside(job, ends if signalled else (), outside)
    if not ends or by_launcher or all(word.signature == "child_failed" for end in ends for word in end.words):
        yield from _launcher_alone(job)


def _by_elimination(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Finding | None:
    lost_at = min((event.at for event in closed if event.at is not None), default=None)
    done = [
        event for event in finished_ranks(job) if closed and event.rank not in ranks_in(closed)
        and (event.at is None or lost_at is None or event.at <= lost_at)
        and not any(event.source == other.source and event.line > other.line and event.at is None for other in closed)
    ]  # fmt: skip
    silent = silent_ranks(job, {end.rank for end in ends}, closed)
    well = bool(closed and silent.ranks) and ended_well(job, silent.ranks)
    if done or well:
        what = "finished" if done else "ended with exit code 0 by torchrun's report"
        text, ranks = f"{what}, and others then lost the connection", ranks_in(done) or silent.ranks
        return ended_finding(job, "rank_left_early", 0.7, ranks, (), text, [*done[:2], *closed[:2]], RAN_OUT)
    if not silent.ranks or not (closed or not all(_says_why(job, end.cause) for end in ends)):
        return None
    # While a rank lives that lost no connection, the silent rank may have ended well: by WORLD_SIZE, it is missing.
    lost = {end.rank for end in ends} | set(ranks_in(closed))
    waits = job.live and any(rank.gone_at is None and rank.rank not in lost for rank in job.ranks)
    found = left_no_word(job, silent, ends, closed)
    return None if waits and job.world_size is not None and found.weight <= UNHEARD else found


def _says_why(job: Job, failure: Failure) -> bool:
    """Whether a rank's end points to no silent rank: its collective timed out, or a user pressed Control-C."""
    return timed_out(job, failure) or text_of(failure.event, "type") == "KeyboardInterrupt"


def timed_out(job: Job, failure: Failure) -> bool:
    """Whether the watchdog of the failure's rank says that a collective timed out, or any does and no rank is named."""
    ranks = {event.rank for event in said(job, "torch.watchdog_timeout")}
    return bool(ranks) and (failure.rank is None or failure.rank in ranks)


def left_no_word(job: Job, silent: SilentRanks, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Finding:
    """Ranks without a word, to which others lost their connections: killed, as a rule."""
    victims = {end.rank for end in ends if end.cause.signature != "child_failed"} - {None} | set(ranks_in(closed))
    proof = list(closed) or [end.cause.event for end in ends]
    nodes = (silent.node,) if silent.node else homes(job, silent.ranks)
    at = min((event.at for event in proof if event.at is not None), default=None)
    kernel = kernel_at(job, nodes[0], at) if len(nodes) == 1 else None
    fault = kernel is not None and kernel.kind == "kernel.segfault"
    lost = f"{count(len(victims), 'other')} lost" if victims else "the others lost"
    return Finding(
        "rank_crashed" if fault else "rank_killed", "critical", UNHEARD if kernel is None else 0.8 if fault else 0.85,
        f"{who(silent.ranks)} {on_nodes(nodes)}{' ' if nodes else ''}left no word, and {lost} the connection to "
        f"{'it' if len(silent.ranks) == 1 else 'them'}: {kernel_text(job, kernel) if kernel else 'most likely killed'}",
        ranks=silent.ranks, nodes=nodes,
        evidence=tuple(event_line(event) for event in (kernel, *proof[:3]) if event is not None),
        advice=LOOK_FOR_THE_KILL if kernel is None else SEGFAULT if fault else OUT_OF_MEMORY,
    )  # fmt: skip


def _ended_from_outside(job: Job, ends: Sequence[RankEnd], outside: Sequence[LogEvent]) -> Finding:
    """All were told to end: by a batch system, by somebody, or by a launcher whose own reason is not in the logs."""
    reason = text_of(outside[0], "reason").replace("_", " ") if outside else ""
    by_user = bool(outside) and all(map(_by_user, outside))
    # a notice comes before the end, and a job may be spared: ranks that live were not ended
    lives = job.live and not ends and bool(job.ranks) and all(rank.gone_at is None for rank in job.ranks)
    what = f"ended from outside{f': {reason}' if reason else ''}"
    text = f"the job was {what}; no rank failed by itself"
    if by_user or lives:
        text = (
            "the job was ended by its user; no rank failed by itself"
            if by_user
            else f"the job is to be {what}; its ranks live"
        )
    proof = [*outside[:2], *(end.cause.event for end in ends[:2])]
    return Finding(
        "rank_killed", "info" if by_user or lives else "critical", 0.8 if reason else 0.5, text,
        nodes=tuple(sorted({event.host for event in proof} - {""}))[:8], evidence=tuple(map(event_line, proof)),
        advice="No rank is to blame. If it should have gone on, look at the batch system's reason.",
    )  # fmt: skip


def _by_user(event: LogEvent) -> bool:
    """Whether a user ended the job: scancel, Control-C, or a terminal that was closed."""
    if event.kind == "slurm.cancelled":
        return text_of(event, "reason") == "user"
    return text_of(event, "signal").removeprefix("SIG") in ("INT", "HUP")


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
    rendezvous = bool(raised) and all("/rendezvous" in " ".join(words_of(event, "frames")[-3:]) for event in raised)
    yield Finding(
        "store_timeout" if rendezvous else "child_failed_no_detail", "critical", 0.6 if raised else 0.5,
        "the launcher failed in its rendezvous, which asks a store on one of the nodes" if rendezvous
        else "a rank failed, and only its launcher's words were recorded: nothing tells which rank, and why",
        nodes=tuple(sorted({event.host for event in events} - {""})), evidence=tuple(map(event_line, events[:3])),
        advice="Look at the node of the rendezvous endpoint: did its agent end, and can this node reach it?"
        if rendezvous else "Look at the output of the ranks, above the launcher's: the cause stands there.",
    )  # fmt: skip
