"""What flight recorder dumps prove: ranks that did not launch, calls that differ, cycles of sends and receives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hangtop.diagnosis.collectives.progress import WaitEdge, vote
from hangtop.diagnosis.collectives.recorder import Matched, matched_dumps
from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.evidence.events import lines, log_events
from hangtop.diagnosis.failures.first import ended_ranks, exits
from hangtop.diagnosis.finding import Evidence, Finding, Observer, of_ranks
from hangtop.diagnosis.phrasing import listed, ranks_text, waiters_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.launches import CODE, OWN_GPU, PAIR_UP, differing, not_launched, operation_text
from hangtop.diagnosis.rules.stalled import AGREED
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS

POSTED_EARLY = f"{PAIR_UP} If receives are posted early, look at the stacks of these ranks first."
SCHEDULED = 0.7
"""Weight if recorders show only scheduled operations: whether a GPU has begun them is unknown."""


def by_recorders(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch, collective_size_mismatch, p2p_deadlock and collective_stalled by recorder dumps.

    A rank without a dump is named if others wait for it. Live, a collective must have been open for longer than the
    job's pauses and the user's patience: dumps of a job in motion show open collectives as well.
    """
    job = job_status.job
    if not job.recorders:
        return
    matched = matched_dumps(job)
    for launched in matched.differs:
        texts = {rank: operation_text(operation, sized=True) for rank, operation in sorted(launched.items())}
        proof = [(rank, _dump(matched, rank, text)) for rank, text in texts.items()]
        yield from differing(job, launched, (0.95, 0.6), proof)
    if not matched.differs:
        for rule in (_cycle, _unfinished, _stayed_away):
            yield from rule(job_status, matched)


def _open_long(job_status: JobStatus, matched: Matched, since: Iterable[float | None]) -> bool:
    """Whether the earliest launch is older than the alarm by the dumps' own clocks; always for hung or saved jobs."""
    written, began = matched.at, min((at for at in since if at is not None), default=None)
    age = 0.0 if written is None or began is None else written - began
    return not job_status.job.live or job_status.hung or age >= job_status.alarm_after


def _waiters(job_status: JobStatus, culprits: Iterable[int]) -> set[int]:
    """Ranks that wait by dumps, stacks or any other source, without the culprits."""
    waiting = {edge.waiter for edge in waits_of(job_status.job)}
    waiting.update(status.rank for status in job_status.of(*WAITS))
    return waiting - set(culprits)


def _dump(matched: Matched, rank: int, text: str) -> Evidence:
    dump = matched.dumps.get(rank)
    if dump is None:
        return Evidence(Observer.CONTEXT, f"rank {rank}", None, "no dump of it: it may hang in its own shutdown")
    return Evidence(Observer.RECORDER, f"{dump.source} (rank {rank})", dump.at, text, dump.source)


def _cycle(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """p2p_deadlock; collective_mismatch if the cycle contains collectives, which a rank entered in another order.

    A receive may have been posted early, so a rank in the cycle may be held up elsewhere.
    """
    waits = [edge for edge in matched.edges if edge.waiter in matched.cycle and edge.certain]
    if waits and _open_long(job_status, matched, (edge.since for edge in waits)):
        p2p = all(edge.p2p for edge in waits)
        yield Finding(
            "p2p_deadlock" if p2p else "collective_mismatch", "critical", 0.8 if p2p else 0.6,
            f"{'sends and receives' if p2p else 'ranks of several groups'} wait in a cycle: "
            f"{listed([f'rank {edge.waiter} {_open(edge)}' for edge in waits])}",
            ranks=matched.cycle, nodes=homes(job_status.job, matched.cycle),
            evidence=tuple(_dump(matched, edge.waiter, _open(edge)) for edge in waits[:4]),
            advice=POSTED_EARLY if p2p else CODE,
        )  # fmt: skip


def _stayed_away(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """Ranks at which all waits end; ranks without a dump if no rank with a dump is to blame."""
    job = job_status.job
    if matched.unfinished:
        return
    # gloo's recorder has no sends and receives: a rank whose frames show one waits for others itself
    in_pairs = {status.rank for status in job_status.of("waiting") if status.activity and status.activity.kind == "p2p"}
    culprits = tuple(rank for rank in matched.culprits if rank not in in_pairs) or matched.culprits
    if not culprits:
        # a rank that failed by itself, or reported its exit, has another reason to have no dump
        failed = {end.rank for end in ended_ranks(job_status) if not end.cause.consequence} | exits(job).keys()
        culprits = () if set(matched.undumped) <= failed else matched.undumped
    direct = [edge for edge in matched.edges if set(edge.for_ranks) & set(culprits)]
    direct.sort(key=lambda edge: (not edge.certain, edge.p2p, edge.since or 0.0, edge.waiter))
    if direct and _open_long(job_status, matched, (edge.since for edge in direct)):
        uncovered = any(edge.uncovered for edge in matched.edges)
        weight = 0.65 if not matched.culprits else 0.8 if uncovered else 0.92
        last = [_dump(matched, rank, _last(matched, rank)) for rank in culprits[:2]]
        yield not_launched(
            job, culprits, direct, _waiters(job_status, culprits), weight,
            (*last, *(_dump(matched, edge.waiter, _open(edge)) for edge in direct[:3])),
        )  # fmt: skip


def _unfinished(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """collective_stalled: a collective is open that all members of the group launched, or that some completed.

    Needs two dumps: with one, other members may not have launched yet. If one rank alone gave another size and NCCL
    warns of a truncated message, that rank is wrong: collective_size_mismatch.
    """
    if not matched.unfinished:
        return
    job, (label, waiting, completed) = job_status.job, matched.unfinished[0]
    members = sorted({rank for group in matched.unfinished for rank in group.waiting})
    if len(matched.dumps) < 2 or not _open_long(job_status, matched, (op.since for op in waiting.values())):
        return
    truncated = log_events(job, "nccl.warn", "truncated")
    sizes = vote({rank: op.size for rank, op in waiting.items()}) if truncated else None
    alone = sizes.odd if sizes is not None and len(sizes.odd) == 1 and not sizes.tied else {}
    ranks, operation = sorted(alone) or members, operation_text(next(iter(waiting.values())))
    done = f"{ranks_text(completed)} completed: the GPU stands still" if completed else "all members launched"
    odd = "".join(f"; rank {rank} alone gave {size}" for rank, size in alone.items())
    others = _waiters(job_status, ranks)
    yield of_ranks(
        "collective_size_mismatch" if alone else "collective_stalled",
        0.85 if completed and 2 * len(ranks) < len(matched.dumps) else 0.77 if matched.timed or alone else SCHEDULED,
        ranks, homes(job, ranks),
        f"has not completed {operation} of group {label}, which {done}{odd}"
        f"{'; ' + waiters_text(others, 'other') if others else ''}",
        (*(_dump(matched, rank, f"{operation_text(op, sized=True)} open") for rank, op in [*waiting.items()][:3]),
         *(_dump(matched, rank, f"{operation} completed") for rank in completed[:1]), *lines(truncated[:1])),
        OWN_GPU if completed else AGREED,
    )  # fmt: skip


def _open(edge: WaitEdge) -> str:
    way = {"send": " to ", "recv": " from "}.get(edge.operation)
    return f"{edge.operation}{way}{ranks_text(edge.for_ranks)} open" if way else f"{edge.operation} #{edge.seq} open"


def _last(matched: Matched, rank: int) -> str:
    """``launched last: all_reduce #6 (completed), at train_step (/job/loop.py:40)``, first frame outside torch."""
    launched = matched.dumps[rank].collectives if rank in matched.dumps else ()
    if not launched:
        return "launched nothing"
    call = launched[-1]
    outside = (frame for frame in call.frames if "site-packages" not in frame.file and "/torch/" not in frame.file)
    where = "".join(f", at {frame.name} ({frame.file}:{frame.line})" for frame in [*outside][:1])
    return f"launched last: {call.op} #{call.seq} ({call.state}){where}"


STATUS_RULES = (by_recorders,)
