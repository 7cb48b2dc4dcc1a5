"""Torch's own checks of collectives: fingerprints, desync reports, monitored barriers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.vote import vote
from hangtop.diagnosis.evidence.event_fields import number_of, numbers_of, text_of, words_of
from hangtop.diagnosis.evidence.events import lines, said
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text
from hangtop.diagnosis.roster import homes

SHAPE_ONLY = frozenset({"shape", "dtype"})


def fingerprints(job: Job) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by TORCH_DISTRIBUTED_DEBUG=DETAIL.

    Needs the lines about fingerprints. Each names a pair of ranks only, so what every rank ran is gathered from all of
    them and put to the vote.
    """
    events = said(job, "torch.fingerprint")
    if not events:
        return
    ran: dict[int, tuple[str, str, str, int | None]] = {}
    differs: set[str] = set()
    for event in events:
        differs.update(words_of(event, "differs"))
        for side in ("a", "b"):
            rank = number_of(event, f"rank_{side}")
            if rank is not None:
                ran.setdefault(rank, _fingerprint(event, side))
    counted = vote(ran)
    if counted is None or not counted.odd:
        return
    size_only = bool(differs) and differs <= SHAPE_ONLY
    kind = "collective_size_mismatch" if size_only else "collective_mismatch"
    told = listed([f"rank {rank} ran {_told(value, size_only)}" for rank, value in sorted(counted.odd.items())])
    yield Finding(
        kind, "critical", 0.75 if counted.tied else 0.93,
        f"{told}; {ranks_text(counted.usual_ranks)} ran {_told(counted.usual, size_only)}",
        ranks=counted.odd_ranks, nodes=homes(job, counted.odd_ranks), evidence=lines(events),
        advice="Look for a collective behind `if rank == …`, or for shapes that depend on a rank's data.",
    )  # fmt: skip


def _fingerprint(event: LogEvent, side: str) -> tuple[str, str, str, int | None]:
    shape = event.data.get(f"shape_{side}")
    return (
        text_of(event, f"op_{side}"),
        str(shape) if isinstance(shape, list) else text_of(event, f"shape_{side}"),
        text_of(event, f"dtype_{side}"),
        number_of(event, f"seq_{side}"),
    )


def _told(value: tuple[str, str, str, int | None], whole: bool) -> str:
    op, shape, dtype, sequence = value
    return f"{op} of {shape} {dtype}".strip() if whole else op + (f" #{sequence}" if sequence is not None else "")


def did_not_join(job: Job) -> Iterator[Finding]:
    """collective_mismatch by desync reports and monitored barriers: the ranks that did not join.

    Needs TORCH_NCCL_DESYNC_DEBUG's report or monitoredBarrier's lines.
    """
    desync = [event for event in said(job, "torch.desync") if numbers_of(event, "lagging")]
    failed = [event for event in said(job, "torch.barrier_failed") if numbers_of(event, "missing")]
    if desync:
        first = desync[0]
        ranks = tuple(sorted(set(numbers_of(first, "lagging"))))
        done, missing = number_of(first, "finished"), number_of(first, "missing")
        after = f"finished collective #{done} and did not join #{missing}" if missing is not None else "did not join"
        yield _laggards(job, ranks, after, desync)
    if failed:
        ranks = tuple(sorted({rank for event in failed for rank in numbers_of(event, "missing")}))
        yield _laggards(job, ranks, "did not come to the monitored barrier that the others wait in", failed)


def _laggards(job: Job, ranks: tuple[int, ...], what: str, events: Sequence[LogEvent]) -> Finding:
    return Finding(
        "collective_mismatch", "critical", 0.85, f"{ranks_text(ranks)} {what}",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines(events),
        advice="They are elsewhere in the program: look at their last log lines, or at their stacks while it hangs.",
    )  # fmt: skip
