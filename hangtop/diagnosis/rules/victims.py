"""Jobs in which every rank that speaks is a victim of another one: which one, by elimination, else who ended them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import event_line, finished, ranks_in, said
from hangtop.diagnosis.failures.first import FROM_OUTSIDE, RankEnd
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, Failure, failures
from hangtop.diagnosis.failures.unheard import (
    SilentRanks,
    ended_well,
    finished_before,
    kernel_at,
    kernel_text,
    silent_ranks,
    silent_survivor,
)
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, on_nodes, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.rules.nccl import retried
from hangtop.diagnosis.rules.not_launched import RAN_OUT

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
ASK_NCCL = "NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks."
UNHEARD = 0.7
"""Weight of a kill of which no line of the kernel tells."""
_RENDEZVOUS = re.compile(r"elastic[/\\]rendezvous[/\\]\w{1,60}\.py")


def all_victims(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Iterator[Finding]:
    """Every rank that speaks ended because of another one: which one, by elimination."""
    finding = _by_elimination(job, ends, closed)
    if finding is not None:
        yield finding
        return
    nccl = [end.cause for end in ends if end.cause.signature == "nccl" and not end.cause.event.data.get("consequence")]
    signalled = bool(ends) and all(any(word.signal in ENDING_SIGNALS for word in end.words) for end in ends)
    outside = [event for kind in FROM_OUTSIDE for event in said(job, kind)]
    taken_along = signalled and not outside and bool(said(job, "launcher.killed"))
    if nccl and not (nccl_failures(job) or retried(job)):
        yield _failed_in_nccl(job, nccl)
    elif outside or (signalled and not taken_along):
        yield _ended_from_outside(job, ends if signalled else (), outside)
    if not ends or taken_along or all(word.signature == "child_failed" for end in ends for word in end.words):
        yield from _launcher_alone(job)


def _by_elimination(job: Job, ends: Sequence[RankEnd], closed: Sequence[LogEvent]) -> Finding | None:
    silent = silent_ranks(job, {end.rank for end in ends}, closed)
    if closed and (early := finished_before(job, closed)):
        proof = (*early[:2], *closed[:2])
        return _left_early(job, ranks_in(early), "finished, and others then lost the connection", 0.7, proof)
    if closed and silent.ranks and (reports := ended_well(job, silent.ranks)):
        what = "ended with exit code 0 by torchrun's report, and others then lost the connection"
        return _left_early(job, silent.ranks, what, 0.75, (*reports[:2], *closed[:2]))
    if silent.ranks and (closed or not all(_says_why(job, end.cause) for end in ends)):
        # While a rank lives that lost no connection, the silent rank may have ended well: by WORLD_SIZE, it is missing.
        lost = {end.rank for end in ends} | set(ranks_in(closed))
        waits = job.live and any(rank.gone_at is None and rank.rank not in lost for rank in job.ranks)
        waits = waits and job.world_size is not None
        found = left_no_word(job, silent, ends, closed)
        return None if waits and found.weight <= UNHEARD else found
    spoke = {end.rank for end in ends} | {failure.rank for failure in failures(job)}
    survivor = silent_survivor(job, spoke, closed)
    if survivor is not None:
        what = "is still there and says nothing, and all others lost the connection"
        return _left_early(job, (survivor,), what, 0.6, closed[:3])
    return None


def _says_why(job: Job, failure: Failure) -> bool:
    """Whether a rank's end points to no silent rank: its collective timed out, or a user pressed Control-C."""
    return timed_out(job, failure) or text_of(failure.event, "type") == "KeyboardInterrupt"


def _left_early(job: Job, ranks: Sequence[int], what: str, weight: float, proof: Sequence[LogEvent]) -> Finding:
    nodes = homes(job, ranks) or tuple(sorted({event.host for event in proof[:1]} - {""}))
    return Finding(
        "rank_left_early", "critical", weight,
        f"{who(ranks)} {on(nodes)}{what} to {'it' if len(ranks) == 1 else 'them'}",
        ranks=tuple(ranks), nodes=nodes, evidence=tuple(map(event_line, proof)), advice=RAN_OUT,
    )  # fmt: skip


def left_no_word(
    job: Job, silent: SilentRanks, ends: Sequence[RankEnd], closed: Sequence[LogEvent], launcher: LogEvent | None = None
) -> Finding:
    """Ranks without a word, to which others lost their connections: killed, as a rule."""
    victims = {end.rank for end in ends if end.cause.signature != "child_failed"} - {None} | set(ranks_in(closed))
    proof = [*([launcher] if launcher else []), *(closed or [end.cause.event for end in ends])]
    nodes = (silent.node,) if silent.node else homes(job, silent.ranks)
    at = min((event.at for event in proof if event.at is not None), default=None)
    kernel = kernel_at(job, nodes[0], at) if len(nodes) == 1 else None
    fault = kernel is not None and kernel.kind == "kernel.segfault"
    lost = f"{count(len(victims), 'other')} lost" if victims else "the others lost"
    return Finding(
        "rank_crashed" if fault else "rank_killed", "critical", UNHEARD if kernel is None else 0.8 if fault else 0.85,
        f"{who(silent.ranks)} {on(nodes)}left no word, and {lost} the connection to "
        f"{'it' if len(silent.ranks) == 1 else 'them'}: {kernel_text(job, kernel) if kernel else 'most likely killed'}",
        ranks=silent.ranks, nodes=nodes,
        evidence=tuple(event_line(event) for event in (kernel, *proof[:3]) if event is not None),
        advice=LOOK_FOR_THE_KILL if kernel is None else SEGFAULT if fault else OUT_OF_MEMORY,
    )  # fmt: skip


def _failed_in_nccl(job: Job, failed: Sequence[Failure]) -> Finding:
    """All that is known is that a call into NCCL failed; its own warning is not in the logs."""
    ranks = tuple(sorted({failure.rank for failure in failed if failure.rank is not None}))
    return Finding(
        "rank_crashed", "critical", 0.5, f"{who_failed(ranks, failed)} failed in NCCL: {failed[0].what}",
        ranks=ranks, nodes=homes(job, ranks) or tuple(sorted({failure.host for failure in failed} - {""})),
        evidence=tuple(event_line(failure.event) for failure in failed[:3]), advice=ASK_NCCL,
    )  # fmt: skip


def _ended_from_outside(job: Job, ends: Sequence[RankEnd], outside: Sequence[LogEvent]) -> Finding:
    """All were told to end: by a batch system, by somebody, or by a launcher whose own reason is not in the logs."""
    reason = text_of(outside[0], "reason").replace("_", " ") if outside else ""
    if outside and all(map(_by_user, outside)):
        return Finding(
            "rank_killed", "info", 0.8, "the job was ended by its user; no rank failed by itself",
            nodes=tuple(sorted({event.host for event in outside} - {""}))[:8],
            evidence=tuple(map(event_line, outside[:2])),
            advice="Nothing is wrong, if the user meant to end it.",
        )  # fmt: skip
    proof = [*outside[:2], *(end.cause.event for end in ends[:2])]
    # a notice comes before the end, and a job may be spared: ranks that live were not ended
    lives = job.live and not ends and bool(job.ranks) and all(rank.gone_at is None for rank in job.ranks)
    because = f": {reason}" if reason else ""
    return Finding(
        "rank_killed", "info" if lives else "critical", 0.8 if reason else 0.5,
        f"the job is to be ended from outside{because}; its ranks live" if lives
        else f"the job was ended from outside{because}; no rank failed by itself",
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
        event
        for event in said(job, "python.exception", "child_failed", "user")
        if event.data.get("launcher") is True or text_of(event, "signature") == "child_failed"
    ]
    if raised and all(event.data.get("cut") is True for event in raised) and said(job, "torch.store_timeout"):
        return
    restarts = [] if finished(job) else [e for e in said(job, "elastic.restart") if "attempts_left" in e.data]
    events = raised or [*said(job, "launcher.killed"), *restarts]
    if not events:
        return
    rendezvous = bool(raised) and all(
        (event.data.get("cut") is True and _RENDEZVOUS.search(event.text))
        or any("/rendezvous" in frame for frame in words_of(event, "frames")[-3:])
        for event in raised
    )
    yield Finding(
        "store_timeout" if rendezvous else "child_failed_no_detail", "critical", 0.6 if raised else 0.5,
        "the launcher failed in its rendezvous, which asks a store on one of the nodes" if rendezvous
        else "a rank failed, and only its launcher's words were recorded: nothing tells which rank, and why",
        nodes=tuple(sorted({event.host for event in events} - {""})), evidence=tuple(map(event_line, events[:3])),
        advice="Look at the node of the rendezvous endpoint: did its agent end, and can this node reach it?"
        if rendezvous else "Look at the output of the ranks, above the launcher's: the cause stands there.",
    )  # fmt: skip


def timed_out(job: Job, failure: Failure) -> bool:
    """Whether the watchdog of the failure's rank says that a collective timed out, or any does and no rank is named."""
    ranks = {event.rank for event in said(job, "torch.watchdog_timeout")}
    return bool(ranks) and (failure.rank is None or failure.rank in ranks)


def who_failed(ranks: Sequence[int], failed: Sequence[Failure]) -> str:
    """``rank 3``; ``local rank 3`` where a label or a file tells only that, else ``a rank``."""
    local = {number_of(failure.event, "local_rank") for failure in failed}
    number = next(iter(local)) if len(local) == 1 else None
    return who(ranks, "a rank" if number is None else f"local rank {number}")


def on(nodes: Sequence[str]) -> str:
    """``on node4 ``, with the blank behind it; empty where no node is known."""
    return f"{on_nodes(nodes)} " if nodes else ""
