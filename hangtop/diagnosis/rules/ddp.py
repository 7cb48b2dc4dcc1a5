"""What DistributedDataParallel says itself: parameters that got no gradient, or got one twice."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed
from hangtop.diagnosis.witnesses.event_fields import number_of, numbers_of, text_of, words_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said


def unused_parameters(job: Job) -> Iterator[Finding]:
    """unused_parameters: DDP's reducer waits for gradients that never come, or got one twice.

    Needs DDP's own error; its names of the parameters where TORCH_DISTRIBUTED_DEBUG printed them.
    """
    unused, twice = said(job, "torch.unused_parameters"), said(job, "torch.marked_twice")
    events = unused or twice
    if not events:
        return
    names = sorted({name for event in events for name in words_of(event, "names")})
    indices = sorted({index for event in events for index in numbers_of(event, "indices")})
    reporters = tuple(sorted({rank for event in events if (rank := number_of(event, "reporter")) is not None}))
    if not unused:
        name = text_of(twice[0], "name")
        what = f"parameter {name or 'unnamed'} got its gradient twice in one step"
        advice = "Static graphs with reused parameters need static_graph=True; check gradient checkpointing."
    else:
        which = listed(names) or listed([f"#{index}" for index in indices])
        what = f"parameters got no gradient in this step{which and f': {which}'}"
        advice = "Use every parameter in the loss on every rank, or find_unused_parameters=True."
    yield Finding(
        "unused_parameters", "critical", 0.93, what,
        ranks=ranks_in(events) or reporters, nodes=hosts_in(job, events), evidence=lines(events), advice=advice,
    )  # fmt: skip
