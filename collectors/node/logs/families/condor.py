"""HTCondor's event log: when a job was submitted, what held it, and how it ended.

Jobs that are submitted one after the other may write into one log.

Format: ``012 (4711.000.000) 03/21 01:51:54 Job was held.`` and the reason on the next line; event 005 has
``(1) Normal termination (return value 0)`` or ``(0) Abnormal termination (signal 9)``.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.said import Family, Said, number

_MEMORY = re.compile(
    r"put on hold\b[^\r\n]{0,120}? due to memory usage\b|gone over (?:cgroup )?memory limit of \d{1,12}\b"
)
_SLOT = re.compile(r"\bError from (?:slot\w{1,20}@)?(?P<host>[A-Za-z][\w.-]{1,120}): ")
_ENDED = re.compile(
    r"\(1\) Normal termination \(return value (?P<code>-?\d{1,10})\)"
    r"|\(0\) Abnormal termination \(signal (?P<signal>\d{1,3})\)"
)

_SUBMITTED = re.compile(r"^000 \(\d{1,9}\.\d{1,6}\.\d{1,6}\) [\d/: -]{10,20}Job submitted from host: ")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    if _SUBMITTED.match(text):
        yield Said("job.submitted", {"launcher": "htcondor"})
        return
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
        slot = _SLOT.search(text)
        yield Said("slurm.out_of_memory", {"launcher": "htcondor"}, host="" if slot is None else slot.group("host"))


FAMILY = Family(
    "condor",
    (b"Job submitted from host", b"due to memory usage", b"memory limit of ", b"ormal termination ("),
    read,
)
