"""Jobs in which every rank that speaks is a victim of another one: which one, by elimination, else who ended them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import event_line, finished, ranks_in, said
from hangtop.diagnosis.failures.first import RankEnd, finished_ranks
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, Failure
from hangtop.diagnosis.failures.unheard import SilentRanks, kernel_at, kernel_text, silent_ranks
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
    """The rank that finished before others lost their connections, else the one that left no word."""
    lost_at = min((event.at for event in closed if event.at is not None), default=None)
    done = [
        event for event in finished_ranks(job) if closed and event.rank not in ranks_in(closed)
        and (event.at is None or lost_at is None or event.at <= lost_at)
        and not any(event.source == other.source and event.line > other.line and event.at is None for other in closed)
    ]  # fmt: skip
    if done:
        text = "finished, and others then lost the connection"
        return ended_finding(job, "rank_left_early", 0.7, ranks_in(done), (), text, [*done[:2], *closed[:2]], RAN_OUT)
    silent = silent_ranks(job, {end.rank for end in ends}, closed)
    points_nowhere = all(
        timed_out(job, end.cause) or text_of(end.cause.event, "type") == "KeyboardInterrupt" for end in ends
    )
    if not silent.ranks or (points_nowhere and not closed):
        return None
    # While a rank lives that lost no connection, the silent rank may have ended well: by WORLD_SIZE, it is missing.
    lost = {end.rank for end in ends} | set(ranks_in(closed))
    waits = job.live and any(rank.gone_at is None and rank.rank not in lost for rank in job.ranks)
    found = left_no_word(job, silent, ends, closed)
    return None if waits and job.world_size is not None and found.weight <= UNHEARD else found


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
