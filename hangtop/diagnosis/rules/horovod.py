"""What Horovod finds out: who has not submitted a tensor that others wait for, tensors that do not agree."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text
from hangtop.diagnosis.roster import homes, world_or_logged
from hangtop.diagnosis.verdict.aftermath import finished
from hangtop.diagnosis.witnesses.event_fields import numbers_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, said


def stalled(job: Job) -> Iterator[Finding]:
    """collective_mismatch by Horovod's stall inspector: ranks that have not submitted what the others wait for.

    Needs its warnings. Where ranks wait for one another with different tensors, the fewest are named. A run that came
    to its end afterwards has only been slow once.
    """
    events = said(job, "horovod.stalled")
    if not events or finished(job):
        return
    missing = [absent for event in events if (absent := _missing(job, events, event))]
    if not missing:
        return
    fewest = min(map(len, missing))
    ranks = tuple(sorted({rank for each in missing if len(each) == fewest for rank in each}))
    operations = sorted({text_of(event, "op") for event in events} - {""})
    what = f"{operations[0]}{f' and {len(operations) - 1} more' if len(operations) > 1 else ''}"
    yield Finding(
        "collective_mismatch", "critical", 0.8,
        f"Horovod: {ranks_text(ranks)} {'has' if len(ranks) == 1 else 'have'} not submitted {what}, "
        "which the others wait for",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines(events),
        advice="Those ranks are elsewhere in the program, or failed: look at their last log lines and stacks. A "
        "collective behind `if hvd.rank() == …`, or another number of batches, does this too.",
    )  # fmt: skip


def _missing(job: Job, events: tuple[LogEvent, ...], event: LogEvent) -> set[int]:
    """Who has not submitted it. Where only those are told who have, the others of the job are meant."""
    if "missing" in event.data:
        return set(numbers_of(event, "missing"))
    seen = {rank for each in events for name in ("ready", "missing") for rank in numbers_of(each, name)}
    world = world_or_logged(job)
    return (set(range(world)) if world else set(range(max(seen, default=-1) + 1))) - set(numbers_of(event, "ready"))


def mismatched(job: Job) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by Horovod's own check of what ranks submitted.

    Needs its error, which names no rank.
    """
    events = said(job, "horovod.mismatch")
    if events:
        kind = "collective_mismatch" if text_of(events[0], "differs") == "op" else "collective_size_mismatch"
        yield Finding(
            kind, "critical", 0.9, f"Horovod: {text_of(events[0], 'detail')[:200]}",
            nodes=hosts_in(job, events), evidence=lines(events),
            advice="Compare what the ranks submit under that name: shapes that depend on a rank's data, branches.",
        )  # fmt: skip
