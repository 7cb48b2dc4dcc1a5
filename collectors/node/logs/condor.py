"""HTCondor's event log: what held a job, and how it ended.

Format: ``012 (4711.000.000) 03/21 01:51:54 Job was held.`` and the reason on the next line; event 005 has
``(1) Normal termination (return value 0)`` or ``(0) Abnormal termination (signal 9)``.
"""

from __future__ import annotations

import re
from typing import Iterator

from collectors.node.logs import signals
from collectors.node.logs.said import Family, Said, number

_MEMORY = re.compile(
    r"put on hold\b[^\r\n]{0,120}? due to memory usage\b|gone over (?:cgroup )?memory limit of \d{1,12}\b"
)
_ENDED = re.compile(
    r"\(1\) Normal termination \(return value (?P<code>-?\d{1,10})\)"
    r"|\(0\) Abnormal termination \(signal (?P<signal>\d{1,3})\)"
)


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    ended = _ENDED.search(text)
    if ended is not None:
        code = number(ended.group("code"))
        if code == 0:
            yield Said("job.finished", {})
        elif code is not None:
            yield Said("launcher.exit", {"launcher": "htcondor", "exitcode": code})
        else:
            yield Said("launcher.exit", {"launcher": "htcondor", "signal": signals.name(ended.group("signal"))})
    elif _MEMORY.search(text):
        yield Said("slurm.out_of_memory", {"launcher": "htcondor"})


FAMILY = Family("condor", (b"due to memory usage", b"memory limit of ", b"ormal termination ("), read)
