"""Ranks that failed: the first failure in time that is not a consequence of another's, and who fell over afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.case import Case
from hangtop.diagnosis.devices import event_line
from hangtop.diagnosis.failures import VICTIM_SIGNALS, Failure, by_rank, failures, text_of
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.rules.cuda import hardware_kind
from hangtop.diagnosis.rules.nccl_log import failing_warnings, lost_connections
from hangtop.diagnosis.rules.nccl_raised import failed_in_nccl, raised_in_nccl
from hangtop.diagnosis.said import ranks_in
from hangtop.diagnosis.scene import world_size
from hangtop.diagnosis.standing import Stance
from hangtop.diagnosis.words import count, on_nodes, ranks_text, who

ENDED: tuple[Stance, ...] = ("gone", "missing", "leaving", "refused", "unseen")
"""Stances in which a rank of a live job may be said to have failed; one that works on has survived its traceback."""
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
        "shared_memory",
        "worker_died",
    }
)
"""Signatures of exceptions that rules of their own report under a kind that says more than "crashed"."""
VICTIM_SIGNATURES = frozenset({"connection", "interrupt", "child_failed", "nccl"})
"""Signatures that tell of somebody else's end, unless nobody else ended."""
FROM_OUTSIDE = ("slurm.cancelled", "elastic.signal")
"""A batch system's word, and a launcher's that it was itself told to end."""
KILLED = frozenset({"KILL"})
MEMORY = frozenset({"kernel_oom", "memory"})


def crashed(case: Case) -> Iterator[Finding]:
    """rank_crashed: the earliest exception, signal or abort that is no consequence; ranks with the same one together.

    Needs words about the ends of ranks: tracebacks, launchers' reports, kernel lines. Live, only ranks whose process is
    gone or shuts down count. Failures without any time come after those with one, in the order of their log.
    """
    ended = _ended(case)
    first = _first(ended)
    if first is None or _killed_by(first) or _told_elsewhere(case.job, first) or _bare(first):
        return
    alike = [own for own in ended if own is first or _same_failure(own[0], first[0])]
    ranks = tuple(sorted({own[0].rank for own in alike if own[0].rank is not None}))
    failure = first[0]
    who = ranks_text(ranks) if ranks else "a rank"
    where = f" at {failure.frame}" if failure.frame else ""
    others = len({own[0].rank for own in ended} - {*ranks, None})
    after = f"; {count(others, 'other')} fell over afterwards" if others else ""
    yield Finding(
        "rank_crashed", "critical", 0.9 if failure.at is not None or len(ended) == len(alike) else 0.75,
        f"{who} {_on(case.job, ranks)}failed first: {failure.what}{where}{after}",
        ranks=ranks, nodes=_nodes(case.job, ranks),
        evidence=tuple(event_line(word.event) for word in first[:3]),
        advice="Mend this one; the other ranks' errors follow from it." if others else "Look at the first traceback.",
    )  # fmt: skip


def killed(case: Case) -> Iterator[Finding]:
    """rank_killed: ended by SIGKILL from outside, by the kernel's or Slurm's memory limit, or by the batch system.

    Needs a launcher's or a kernel's word (exit code -9 or 137, an OOM kill of its pid). Without one: of several ranks
    that lost their connections, the only one that left no word at all.
    """
    ended = _ended(case)
    first = _first(ended)
    if first is not None and _killed_by(first):
        yield _killed(case, first)
    elif first is None:
        closed = lost_connections(case.job)
        silent = _silent(case.job, ended, closed)
        if silent:
            yield _fell_silent(case.job, silent, ended, closed)
        elif raised_in_nccl(ended):
            yield failed_in_nccl(case.job, raised_in_nccl(ended))
        elif ended or any(event.kind in FROM_OUTSIDE for event in case.job.events):
            yield from _ended_from_outside(case.job, ended)


def left_no_detail(case: Case) -> Iterator[Finding]:
    """child_failed_no_detail: a launcher's bare exit code is all that is known of the first failure.

    Needs torchrun's report or another launcher's last words; says nothing where the rank's own traceback is at hand.
    Ranks that ended in the same second with the same code are told together: which was first, nobody knows.
    """
    ended = _ended(case)
    first = _first(ended)
    if first is None or not _bare(first) or failing_warnings(case.job):
        return  # why NCCL failed says more than a bare code
    earliest = first[0]
    alike = [own[0] for own in ended if own is first or _same_exit(own[0], earliest)]
    ranks = tuple(sorted({failure.rank for failure in alike if failure.rank is not None}))
    together = " in the same second" if len(ranks) > 1 else " first"
    yield Finding(
        "child_failed_no_detail", "critical", 0.7,
        f"{who(ranks)} failed{together} with {earliest.what}, and no traceback was recorded",
        ranks=ranks, nodes=_nodes(case.job, ranks) or tuple(sorted({earliest.host} - {""})),
        evidence=tuple(event_line(failure.event) for failure in alike[:3]),
        advice="Decorate the main function with torch.distributed.elastic.multiprocessing.errors.record, or start with "
        "torchrun --tee 3 --log-dir DIR, and look at that rank's own output.",
    )  # fmt: skip


def _same_failure(one: Failure, other: Failure) -> bool:
    """Two ranks that raised the same at the same line; a bare exit code is no likeness."""
    told = one.manner == "exception" and other.manner == "exception"
    return told and one.what == other.what and one.frame == other.frame


def _same_exit(one: Failure, other: Failure) -> bool:
    """Two ranks that ended in one second with the same exit code."""
    return (one.manner, one.what, one.consequence) == (
        other.manner,
        other.what,
        False,
    ) and one.at == other.at is not None


def _bare(words: Sequence[Failure]) -> bool:
    """A launcher's word that a rank ended, without a signal, a traceback or a message."""
    own = [word for word in words if not word.consequence] or words
    return all(word.manner == "exit" and not word.signal and not text_of(word.event, "type") for word in own)


def _ended(case: Case) -> list[tuple[Failure, ...]]:
    """Words about each rank that ended, the weightiest word first, ranks in the order of their failures."""
    told = by_rank(failures(case.job))
    kept = []
    for rank, words in told.items():
        standing = case.scene.standings.get(rank)
        if case.job.live and standing is not None and standing.stance not in ENDED:
            continue
        kept.append(tuple(sorted(_own_words(words), key=_weight)))
    unnamed = [failure for failure in failures(case.job) if failure.rank is None]
    if not kept and unnamed and not case.job.live:
        # after the fact a launcher's bare word is worth saying, though nothing tells of which rank it speaks
        return [tuple(sorted(unnamed, key=_weight))]
    return sorted(kept, key=_time)


def _own_words(words: Sequence[Failure]) -> Sequence[Failure]:
    """A launcher's bare exit code adds nothing to what the rank says itself: that it is a victim, as a rule."""
    said_itself = [word for word in words if word.manner != "exit" or word.signal]
    return said_itself or words


def _weight(failure: Failure) -> tuple[bool, bool, float]:
    """Order a rank's own words: causes before consequences, then those that say what happened, then by time."""
    says_little = (failure.manner == "exit" and not failure.signal) or failure.signal == "ABRT"
    return failure.consequence or _is_victim(failure), says_little, failure.at or 0.0


def _time(words: Sequence[Failure]) -> tuple[bool, float, bool, str, int]:
    """Time of a rank's end: its cause's own, else that of any word about it."""
    cause = words[0]
    times = [word.at for word in words if word.at is not None and not word.consequence] or [
        word.at for word in words if word.at is not None
    ]
    at = cause.at if cause.at is not None and not cause.consequence else min(times, default=None)
    return at is None, at or 0.0, cause.event.data.get("root") is not True, cause.event.source, cause.event.line


def _first(ended: Sequence[tuple[Failure, ...]]) -> tuple[Failure, ...] | None:
    """Words about the first rank that failed by itself; None where all are victims."""
    return next((words for words in ended if not words[0].consequence and not _is_victim(words[0])), None)


def _is_victim(failure: Failure) -> bool:
    return text_of(failure.event, "signature") in VICTIM_SIGNATURES


def _killed_by(words: Sequence[Failure]) -> bool:
    return any(word.signal in KILLED or word.manner in MEMORY for word in words) and not any(
        word.manner in ("exception", "gpu_memory") and not word.consequence for word in words
    )


def _told_elsewhere(job: Job, words: Sequence[Failure]) -> bool:
    first = words[0]
    if first.manner == "exception" and not text_of(first.event, "type") and failing_warnings(job):
        return True  # the end of the traceback is not there, and NCCL says what went wrong
    told = text_of(first.event, "signature") in TOLD_ELSEWHERE or first.manner == "gpu_memory"
    return told or bool(hardware_kind(first.what))


def _killed(case: Case, words: Sequence[Failure]) -> Finding:
    rank = words[0].rank
    memory = any(word.manner in MEMORY for word in words)
    by = (
        "by the kernel: out of memory"
        if memory
        else "by SIGKILL from outside (out of memory, a batch system, somebody)"
    )
    ranks = () if rank is None else (rank,)
    return Finding(
        "rank_killed", "critical", 0.95 if memory else 0.88,
        f"{who(ranks)} {_on(case.job, ranks)}was killed {by}",
        ranks=ranks, nodes=_nodes(case.job, ranks) or tuple(sorted({words[0].host} - {""})),
        evidence=tuple(event_line(word.event) for word in words[:4]),
        advice="Give the node's job more memory or use less (data loader workers, pinned memory, what is cached)."
        if memory else "Look at the kernel log of its node for an OOM kill, and at the batch system's accounting.",
    )  # fmt: skip


def _silent(job: Job, ended: Sequence[tuple[Failure, ...]], closed: Sequence[LogEvent]) -> tuple[int, ...]:
    """Ranks without a word while others lost their connections.

    More than a quarter of all tells nothing by itself: some may only not have been read yet. Then those count that live
    on a node which the others name as the far end of what they lost.
    """
    told = {words[0].rank for words in ended} | set(ranks_in(closed))
    if not told:
        return ()
    world = world_size(job) or _world_by_logs(job) or 1 + max((rank for rank in told if rank is not None), default=-1)
    staying = {rank.rank for rank in job.ranks if rank.gone_at is None}
    silent = tuple(rank for rank in range(world) if rank not in told and rank not in staying)
    if len(silent) * 4 <= world:
        return silent
    peers = {text_of(event, "peer").strip("[").partition("]")[0].partition("<")[0] for event in closed} - {""}
    named = {name for name, node in job.nodes.items() if peers & _addresses(node)}
    there = tuple(rank.rank for rank in job.ranks if rank.rank in silent and rank.node in named)
    return there if len(named) == 1 and len(there) == 1 else ()


def _addresses(node: Node) -> set[str]:
    own = {address.partition("/")[0] for interface in node.network.interfaces for address in interface.addresses}
    return own | {node.name}


def _world_by_logs(job: Job) -> int | None:
    """Size of the job by NCCL's own words: its largest communicator."""
    sizes = [progress.size for progress in job.progress]
    for event in job.events:
        size = event.data.get("size")
        if event.kind == "nccl.init" and isinstance(size, int):
            sizes.append(size)
    return max(sizes, default=None)


def _fell_silent(
    job: Job, silent: tuple[int, ...], ended: Sequence[tuple[Failure, ...]], closed: Sequence[LogEvent]
) -> Finding:
    victims = {words[0].rank for words in ended} | set(ranks_in(closed))
    proof = list(closed) or [words[0].event for words in ended]
    return Finding(
        "rank_killed", "critical", 0.7,
        f"{ranks_text(silent)} {_on(job, silent)}left no word, and {count(len(victims), 'other')} lost the connection "
        f"to {'it' if len(silent) == 1 else 'them'}: most likely killed",
        ranks=silent, nodes=_nodes(job, silent),
        evidence=tuple(event_line(event) for event in proof[:3]),
        advice="Look at the kernel log of its node for an OOM kill, and at the batch system's accounting.",
    )  # fmt: skip


def _ended_from_outside(job: Job, ended: Sequence[tuple[Failure, ...]]) -> Iterator[Finding]:
    """All were told to end: by Slurm, by somebody, or by a launcher whose own reason is not in the logs."""
    cancelled = [event for kind in FROM_OUTSIDE for event in job.events if event.kind == kind]
    told = [words for words in ended if any(word.signal in VICTIM_SIGNALS for word in words)]
    if not cancelled and (not told or len(told) < len(ended)):
        return
    reason = text_of(cancelled[0], "reason").replace("_", " ") if cancelled else ""
    ranks = tuple(sorted({words[0].rank for words in told if words[0].rank is not None}))
    proof = [*cancelled[:2], *(words[0].event for words in told[:2])]
    yield Finding(
        "rank_killed", "critical", 0.8 if reason else 0.5,
        f"the job was ended from outside{f': {reason}' if reason else ''}; no rank failed by itself",
        ranks=ranks, evidence=tuple(event_line(event) for event in proof),
        advice="No rank is to blame. If it should have gone on, look at the batch system's reason.",
    )  # fmt: skip


def _nodes(job: Job, ranks: Sequence[int]) -> tuple[str, ...]:
    return tuple(sorted({rank.node for rank in job.ranks if rank.rank in ranks and rank.node}))


def _on(job: Job, ranks: Sequence[int]) -> str:
    text = on_nodes(_nodes(job, ranks))
    return f"{text} " if text else ""
