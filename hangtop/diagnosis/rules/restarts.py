"""A launcher that starts all ranks anew, again and again: what they failed of stands before the present start."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.evidence.events import event_line
from hangtop.diagnosis.failures.ends import file_advice, is_bare
from hangtop.diagnosis.failures.record import Failure, failures
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, who
from hangtop.diagnosis.roster import homes

AGAIN = 2
"""Starts after the first that make a row of them: one may be a node that was taken in, or out."""


def started_anew(job: Job) -> Iterator[Finding]:
    """job_restarts: the launcher has started the ranks anew, and what ended the starts before.

    Needs the launcher's count in the environment of the ranks (TORCHELASTIC_RESTART_COUNT), and logs for the reason.
    Critical from the second time on while no step was counted since the last; information once steps are.
    """
    living = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    times = max((rank.process.restart or 0 for rank in living), default=0)
    if not times or not job.live:
        return
    begun = min(rank.process.started for rank in living)
    stepped = job.motion.last_step_at is not None and job.motion.last_step_at > begun
    first = _first(failures(job, earlier=True))
    ranks = () if first is None or first.rank is None else (first.rank,)
    place = f" at {first.frame}" if first is not None and first.frame else ""
    why = f"; {who(ranks)} had failed first: {first.what}{place}" if first is not None else ""
    refused = "" if first is None else file_advice(first.what)
    counted = f"TORCHELASTIC_RESTART_COUNT={times}"
    yield Finding(
        "job_restarts", "critical" if times >= AGAIN and not stepped else "info", 0.85 if first is not None else 0.6,
        f"the ranks were started anew {count(times, 'time')}, {duration(max(0.0, job.now - begun))} ago the last{why}",
        ranks=ranks,
        nodes=homes(job, ranks),
        evidence=(
            *((event_line(first.event),) if first is not None else ()),
            Evidence("environment of the ranks", begun, counted),
        ),
        advice=f"{refused or 'Mend what ended the first start.'} The launcher tries again until its attempts are used "
        "up (torchrun --max-restarts).",
    )  # fmt: skip


def _first(before: tuple[Failure, ...]) -> Failure | None:
    """The earliest failure that is no consequence and tells more than an exit code."""
    roots = [failure for failure in before if not failure.consequence]
    return next((failure for failure in roots if not is_bare((failure,))), roots[0] if roots else None)
