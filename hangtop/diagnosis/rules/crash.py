"""Ranks that failed: the first failure in time that is not a consequence of another's, and who fell over afterwards."""

import re
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.evidence.event_fields import text_of, words_of
from hangtop.diagnosis.evidence.events import event_line, said
from hangtop.diagnosis.failures.ends import (
    FROM_OUTSIDE,
    called,
    file_advice,
    hosts_alike,
    is_bare,
    is_cut,
    is_unheard,
    named_beside,
    of_children,
    signalled,
    taken_along,
)
from hangtop.diagnosis.failures.record import VICTIM_SIGNALS, Failure, failures, same_exit, same_failure, timed_out
from hangtop.diagnosis.failures.unheard import (
    UnheardRanks,
    ended_well,
    finished_early,
    lingering_one,
    logs_behind,
    without_word,
)
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, on_nodes, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.crash_words import came_to_its_end, launcher_alone, left_early, left_no_word, lingers
from hangtop.diagnosis.rules.ended import ended_ranks, first_failure, unheard_ranks
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.rules.hardware import hardware_kind
from hangtop.diagnosis.rules.nccl import lost_connections, retried
from hangtop.diagnosis.rules.rendezvous import is_unresolved
from hangtop.diagnosis.waits.job_status import JobStatus

TOLD_ELSEWHERE = frozenset(
    {
        "out_of_memory",
        "store",
        "rendezvous",
        "fingerprint",
        "collective_timeout",
        "address_in_use",
        "unused_parameters",
        "host_memory",
        "open_files",
        "processes",
        "shared_memory",
        "worker_died",
    }
)
"""Signatures of exceptions that rules of their own report under a kind that says more than "crashed"."""
WITNESSES = {
    "worker_died": "torch.worker_died",
    "open_files": "host.open_files",
    "processes": "host.processes",
    "shared_memory": "host.shared_memory",
    "host_memory": "host.memory",
}
"""Events by which those rules know: of a message that is cut off there is none."""
NOT_THERE = re.compile("invalid device ordinal", re.IGNORECASE)
"""CUDA's words that ``invalid_device`` reports."""
KILLED = frozenset({"KILL"})
OOM_DAEMONS = frozenset({"systemd-oomd", "earlyoom", "systemd"})
BATCH = {"lsf": "LSF", "moab": "Moab", "htcondor": "HTCondor", "flux": "Flux"}
"""Batch systems that watch a job's memory themselves."""
MEMORY = frozenset({"kernel_oom", "memory"})


def crashed(job_status: JobStatus) -> Iterator[Finding]:
    """rank_crashed: the earliest exception, signal or abort that is no consequence; ranks with the same one together.

    Needs words about the ends of ranks: tracebacks, launchers' reports, kernel lines. Live, only ranks whose process is
    gone or shuts down count. Failures without any time come after those with one, in the order of their log.
    """
    ended = ended_ranks(job_status)
    first = first_failure(ended)
    if first is None or _killed_by(first) or _told_elsewhere(job_status.job, first) or is_bare(first):
        return
    alike = [own for own in ended if own is first or _alike(own[0], first[0])]
    failure = first[0]
    ranks = tuple(sorted({own[0].rank for own in alike if own[0].rank is not None})) or named_beside(
        job_status.job, failure
    )
    own_name = who(ranks, called(own[0].event for own in alike))
    where = f" at {failure.frame}" if failure.frame else ""
    nodes = homes(job_status.job, ranks) or hosts_alike(failure, ended)
    on = f"{on_nodes(nodes)} " if nodes else ""
    others = len({own[0].rank for own in ended} - {*ranks, None})
    after = f"; {count(others, 'other')} fell over afterwards" if others else ""
    yield Finding(
        "rank_crashed", "critical", 0.9 if failure.at is not None or len(ended) == len(alike) else 0.75,
        f"{own_name} {on}failed first: {failure.what}{where}{after}",
        ranks=ranks, nodes=nodes,
        evidence=tuple(event_line(word.event) for word in first[:3]),
        advice=file_advice(failure.what)
        or ("Mend this one; the other ranks' errors follow from it." if others else "Look at the first traceback."),
    )  # fmt: skip


def _alike(one: Failure, first: Failure) -> bool:
    """The same exception at the same line, or the same signal in the same second: which was first, nobody knows."""
    return same_failure(one, first) or (bool(first.signal) and same_exit(one, first))


def killed(job_status: JobStatus) -> Iterator[Finding]:
    """rank_killed: ended by SIGKILL from outside, by the kernel's or Slurm's memory limit, or by the batch system.

    Needs a launcher's or a kernel's word (exit code -9 or 137, an OOM kill of its pid). Without one: of several ranks
    that lost their connections, the only one that left no word at all; rank_left_early where that one is still there.
    """
    ended = ended_ranks(job_status)
    first = first_failure(ended)
    closed = lost_connections(job_status.job)
    if first is not None and _killed_by(first):
        if first[0].event.kind.startswith("elastic.") and said(job_status.job, "monitor.silent"):
            return  # a monitor ended it, and says why
        yield _killed(job_status, first)
    elif logs_behind(job_status):
        return  # who left no word is not known yet
    elif closed and (unheard := unheard_ranks(ended)):
        others = [words for words in ended if words[0].rank not in unheard]
        launcher = [words[0].event for words in ended if words[0].rank in unheard]
        yield left_no_word(job_status.job, UnheardRanks(unheard), others, closed, launcher)
    elif first is None:
        early = finished_early(job_status.job, closed)
        spoke = {words[0].rank for words in ended}
        wordless = without_word(job_status.job, spoke, closed)
        told = spoke | {failure.rank for failure in failures(job_status.job)}  # an exception is a word, too
        lingering = lingering_one(job_status.job, told, closed)
        if early and closed:
            yield left_early(job_status.job, early, closed)
        elif closed and (reports := ended_well(job_status.job, wordless.ranks)):
            yield came_to_its_end(job_status.job, wordless.ranks, reports, closed)
        elif wordless.ranks and (closed or not all(_says_why(job_status.job, words[0]) for words in ended)):
            yield left_no_word(job_status.job, wordless, ended, closed)
        elif lingering is not None:
            yield lingers(job_status.job, lingering, ended, closed)
        elif _raised_in_nccl(ended) and not (nccl_failures(job_status.job) or retried(job_status.job)):
            yield _failed_in_nccl(job_status.job, _raised_in_nccl(ended))
        elif ended or any(event.kind in FROM_OUTSIDE for event in job_status.job.events):
            yield from _ended_from_outside(job_status.job, ended)


def _says_why(job: Job, failure: Failure) -> bool:
    """Whether the end of a rank points to nobody without a word: a collective timed out, or a user's Control-C."""
    return timed_out(job, failure) or text_of(failure.event, "type") == "KeyboardInterrupt"


def left_no_detail(job_status: JobStatus) -> Iterator[Finding]:
    """child_failed_no_detail: a launcher's bare exit code is all that is known of the first failure.

    Needs torchrun's report or another launcher's last words; says nothing where the rank's own traceback is at hand.
    Ranks that ended in the same second with the same code are told together: which was first, nobody knows.
    """
    ended = ended_ranks(job_status)
    first = first_failure(ended)
    if first is None and (not ended or taken_along(job_status.job, ended) or of_children(ended)):
        yield from launcher_alone(job_status.job)
    if first is None or not is_bare(first) or nccl_failures(job_status.job):
        return  # why NCCL failed says more than a bare code
    if is_unheard(first) and lost_connections(job_status.job):
        return  # those who lost it tell more
    earliest = first[0]
    alike = [own[0] for own in ended if own is first or same_exit(own[0], earliest)]
    ranks = tuple(sorted({failure.rank for failure in alike if failure.rank is not None}))
    own_name = called(failure.event for failure in alike)
    together = " in the same second" if len(ranks) > 1 else " first"
    unread = logs_behind(job_status)
    more = "; its log is not read to the end yet" if unread else ", and no traceback was recorded"
    yield Finding(
        "child_failed_no_detail", "critical", 0.5 if unread else 0.7,
        f"{who(ranks, own_name)} failed{together} with {earliest.what}{more}",
        ranks=ranks, nodes=homes(job_status.job, ranks) or tuple(sorted({earliest.host} - {""})),
        evidence=tuple(event_line(failure.event) for failure in alike[:3]),
        advice="Decorate the main function with torch.distributed.elastic.multiprocessing.errors.record, or start with "
        "torchrun --tee 3 --log-dir DIR, and look at that rank's own output.",
    )  # fmt: skip


def _in_rendezvous(failure: Failure) -> bool:
    return any("rendezvous" in frame for frame in words_of(failure.event, "frames"))


def _killed_by(words: Sequence[Failure]) -> bool:
    return any(word.signal in KILLED or word.manner in MEMORY for word in words) and not any(
        (word.manner in ("exception", "gpu_memory") or word.event.data.get("spoken") is True) and not word.consequence
        for word in words
    )


def _told_elsewhere(job: Job, words: Sequence[Failure]) -> bool:
    first = words[0]
    if first.manner == "exception" and not text_of(first.event, "type") and nccl_failures(job):
        return True  # the end of the traceback is not there, and NCCL says what went wrong
    if first.event.data.get("headless") is True and is_cut(first) and lost_connections(job):
        return True  # frames alone, and words about a peer that went away
    if (
        is_cut(first)
        and _in_rendezvous(first)
        and (said(job, "torch.store_timeout") or said(job, "elastic.rendezvous"))
    ):
        return True
    if is_cut(first) and signalled(job):
        return True  # a parent says by which signal its child died: more than frames without an exception
    if is_unresolved(first.event) or (is_cut(first) and timed_out(job, first)):
        return True
    signature = text_of(first.event, "signature")
    witness = WITNESSES.get(signature)
    told = (
        signature in TOLD_ELSEWHERE and (witness is None or bool(said(job, witness)))
    ) or first.manner == "gpu_memory"
    return told or bool(hardware_kind(first.what)) or bool(NOT_THERE.search(first.what))


def _killed(job_status: JobStatus, words: Sequence[Failure]) -> Finding:
    rank = words[0].rank
    memory = any(word.manner in MEMORY or text_of(word.event, "reason") == "OOMKilled" for word in words)
    memory = memory or _ran_full(job_status.job, words[0])
    launchers = [text_of(word.event, "launcher") for word in words if word.manner == "memory"]
    daemon = next((name for name in launchers if name in OOM_DAEMONS), "")
    by = "by SIGKILL from outside (out of memory, a batch system, somebody)"
    if memory:
        batch = next((BATCH[name] for name in launchers if name in BATCH), "")
        by = f"by {batch}: it reached its limit of memory" if batch else "by the kernel: out of memory"
        by = f"by {daemon}: the node ran low on memory" if daemon else by
    ranks = () if rank is None else (rank,)
    return Finding(
        "rank_killed", "critical", 0.95 if memory and not daemon else 0.88,
        f"{who(ranks, called([words[0].event]))} {_on(job_status.job, ranks)}was killed {by}",
        ranks=ranks, nodes=homes(job_status.job, ranks) or tuple(next(([w.host] for w in words if w.host), [])),
        evidence=tuple(event_line(word.event) for word in words[:4]),
        advice="Give the node's job more memory or use less (data loader workers, pinned memory, what is cached)."
        if memory else "Look at the kernel log of its node for an OOM kill, and at the batch system's accounting.",
    )  # fmt: skip


def _ran_full(job: Job, killed: Failure) -> bool:
    """Whether Slurm says of nobody by name, there or anywhere, that the kernel killed for want of memory."""
    told = said(job, "slurm.out_of_memory")
    return killed.signal in KILLED and any(
        event.rank is None and "task" not in event.data and event.host in ("", killed.host) for event in told
    )


def _ended_from_outside(job: Job, ended: Sequence[tuple[Failure, ...]]) -> Iterator[Finding]:
    """All were told to end: by Slurm, by somebody, or by a launcher whose own reason is not in the logs."""
    cancelled = [event for kind in FROM_OUTSIDE for event in job.events if event.kind == kind]
    told = [words for words in ended if any(word.signal in VICTIM_SIGNALS for word in words)]
    if not cancelled and (not told or len(told) < len(ended) or taken_along(job, ended)):
        return
    reason = text_of(cancelled[0], "reason").replace("_", " ") if cancelled else ""
    proof = [*cancelled[:2], *(words[0].event for words in told[:2])]
    where = {event.host for event in cancelled or (words[0].event for words in told)}
    # a notice comes before the end, and a job may be spared: who lives was not ended
    lives = job.live and not told and bool(job.ranks) and all(rank.gone_at is None for rank in job.ranks)
    because = f": {reason}" if reason else ""
    yield Finding(
        "rank_killed", "info" if lives else "critical", 0.8 if reason else 0.5,
        f"the job is to be ended from outside{because}; its ranks live" if lives
        else f"the job was ended from outside{because}; no rank failed by itself",
        nodes=tuple(sorted(where - {""}))[:8],
        evidence=tuple(event_line(event) for event in proof),
        advice="No rank is to blame. If it should have gone on, look at the batch system's reason.",
    )  # fmt: skip


def _on(job: Job, ranks: Sequence[int]) -> str:
    text = on_nodes(homes(job, ranks))
    return f"{text} " if text else ""


def _raised_in_nccl(ended: Sequence[tuple[Failure, ...]]) -> list[Failure]:
    """Errors that ranks raised out of NCCL, of all words about ranks that ended."""
    return [own[0] for own in ended if text_of(own[0].event, "signature") == "nccl" and not own[0].consequence]


def _failed_in_nccl(job: Job, failed: Sequence[Failure]) -> Finding:
    """rank_crashed: all that is known is that a call into NCCL failed; its own warning is not in the logs."""
    ranks = tuple(sorted({failure.rank for failure in failed if failure.rank is not None}))
    nodes = homes(job, ranks) or tuple(sorted({host for own in failed for host in hosts_alike(own, ())}))
    named = who(ranks, called(failure.event for failure in failed))
    return Finding(
        "rank_crashed", "critical", 0.5, f"{named} failed in NCCL: {failed[0].what}",
        ranks=ranks, nodes=nodes, evidence=tuple(event_line(failure.event) for failure in failed[:3]),
        advice="NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
    )  # fmt: skip
