"""LSF's word about a job that it ended: ``TERM_RUNLIMIT: job killed after reaching LSF run time limit.`` and the like.

The names are those of ``bacct``'s and ``bhist``'s termination reasons.
"""

from __future__ import annotations

import re
from typing import Iterator

from collectors.node.logs.said import Family, Said

_TERM = re.compile(r"\bTERM_(?P<why>[A-Z_]{3,30})\b(?:: (?P<words>[^\r\n]{1,160}))?")
_REASONS = {
    "RUNLIMIT": "time_limit",
    "CPULIMIT": "time_limit",
    "DEADLINE": "time_limit",
    "WINDOW": "time_limit",
    "PREEMPT": "preemption",
    "LOAD": "preemption",
    "REQUEUE_ADMIN": "job_requeue",
    "REQUEUE_OWNER": "job_requeue",
    "ZOMBIE": "node_failure",
    "ORPHAN_SYSTEM": "node_failure",
    "ADMIN": "user",
    "FORCE_ADMIN": "user",
    "OWNER": "user",
    "FORCE_OWNER": "user",
}
_MEMORY = ("MEMLIMIT", "SWAP")
_COUNTS = ("THREADLIMIT", "PROCESSLIMIT")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    term = _TERM.search(text)
    if term is None:
        return
    why = term.group("why")
    if why in _MEMORY:
        yield Said("slurm.out_of_memory", {})
    elif why in _COUNTS:
        yield Said("host.processes", {})
    elif why in _REASONS:
        words = (term.group("words") or why).strip()
        yield Said("slurm.cancelled", {"launcher": "lsf", "reason": _REASONS[why], "why": words})


FAMILY = Family("lsf", (b"TERM_",), read)
