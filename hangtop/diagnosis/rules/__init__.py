"""The rules: each a small function from the job, or from the status made of it, to findings; one file per family.

A file lists its rules at its end: ``RULES`` need the job alone, ``STATUS_RULES`` also what each rank does and which
rank waits for which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hangtop.diagnosis import lint, probes, traces
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.rules import (
    absent,
    crash,
    event_rows,
    gpus,
    inside,
    launches,
    network,
    nodes,
    recorder,
    slow,
    stalled,
    startup,
    stuck,
)
from hangtop.diagnosis.waits.job_status import JobStatus

RULES: tuple[Callable[[Job], Iterable[Finding]], ...] = (
    *event_rows.EVENT_ROWS, *absent.RULES, *crash.RULES, *gpus.RULES, *inside.RULES, *network.RULES, *nodes.RULES,
    *launches.RULES, *startup.RULES, *lint.RULES, *probes.RULES, *traces.RULES,
)  # fmt: skip
STATUS_RULES: tuple[Callable[[JobStatus], Iterable[Finding]], ...] = (
    *absent.STATUS_RULES, *crash.STATUS_RULES, *stalled.STATUS_RULES, *network.STATUS_RULES,
    *launches.STATUS_RULES, *recorder.STATUS_RULES, *slow.STATUS_RULES, *startup.STATUS_RULES,
    *stuck.STATUS_RULES,
)  # fmt: skip
