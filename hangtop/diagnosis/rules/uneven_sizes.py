"""An all-to-all that nobody gets through, and to which one rank alone gave another size than all others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from hangtop.diagnosis.evidence.events import lines, warned
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.groups.recorder import NotJoined
from hangtop.diagnosis.groups.vote import Vote
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import homes


def of_another_size(job: Job, stop: NotJoined, odd: Vote[str], dumps: Iterable[Evidence]) -> Finding:
    """collective_size_mismatch where sizes may differ: likely where NCCL also met a message of another size.

    ``odd`` names one rank. ``dumps`` says what each rank gave, of which the first few are kept.
    """
    (rank, size), *_ = odd.odd.items()
    truncated = warned(job, "truncated")
    return Finding(
        "collective_size_mismatch", "critical", 0.77 if truncated else 0.5,
        f"rank {rank} alone gave {stop.op} #{stop.seq} of group {stop.group.label} another size: {size}, the others "
        f"{odd.usual}; none completed it",
        ranks=(rank,), nodes=homes(job, (rank,)), evidence=(*islice(dumps, 4), *lines(truncated[:1])),
        advice="Each rank must send to each what that one expects of it: compare input_split_sizes and "
        "output_split_sizes.",
    )  # fmt: skip
