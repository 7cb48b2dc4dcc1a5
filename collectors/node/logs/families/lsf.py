"""LSF's word about a job that it ended: ``TERM_RUNLIMIT: job killed after reaching LSF run time limit.`` and the like.

The names are those of ``bacct``'s and ``bhist``'s termination reasons. LSF adds its report on a job to the file that
``bsub -o`` names, behind what jobs before wrote into it, with the job's output above or below.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said

_TERM = re.compile(r"\bTERM_(?P<why>[A-Z_]{3,30})\b(?:: (?P<words>[^\r\n]{1,160}))?")
_REPORT = re.compile(
    r"Sender: LSF System\b|The output \(if any\) (?:is (?P<above>above)|(?P<below>follows))\b"
    r"|(?P<done>Successfully completed\.)\s*$"
)
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
    term, report = _TERM.search(text), _REPORT.match(text)
    if report is not None:
        output = next((word for word in ("above", "below") if report.group(word)), None)
        told: Data = {"launcher": "lsf"}
        if output is not None:
            told["output"] = output
        yield Said("job.finished" if report.group("done") else "job.reported", told)
    if term is None:
        return
    why = term.group("why")
    if why in _MEMORY:
        yield Said("slurm.out_of_memory", {"launcher": "lsf"})
    elif why in _COUNTS:
        yield Said("host.processes", {})
    elif why in _REASONS:
        words = (term.group("words") or why).strip()
        yield Said("slurm.cancelled", {"launcher": "lsf", "reason": _REASONS[why], "why": words})


FAMILY = Family("lsf", (b"TERM_", b"Sender: LSF ", b"The output (if any) ", b"Successfully completed."), read)
