"""MPICH's process manager Hydra (also Intel MPI's mpiexec): which process ended badly, and how.

Its report comes over several lines: ``= RANK 3 PID 4711 RUNNING AT node7`` (or ``= PID 4711 RUNNING AT node7``), then
``= EXIT CODE: 9`` or ``= KILLED BY SIGNAL: 9 (Killed)``.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.said import Data, Family, Said, number

_RUNNING = re.compile(
    r"^\s{0,4}=\s{1,6}(?:RANK (?P<rank>\d{1,7}) )?PID (?P<pid>\d{1,10})"
    r" RUNNING AT (?:[\w.-]{1,40}@)?(?P<host>[\w.:-]{1,120})"
)
_HOW = re.compile(
    r"=\s{1,6}(?:EXIT (?:CODE|STATUS): (?P<code>\d{1,5})|(?:KILLED BY SIGNAL|EXIT STRING): ?(?P<signal>\d{1,2})\b)"
)
_STRING = re.compile(r"TERMINATED WITH THE EXIT STRING: [^\r\n(]{0,60}\(signal (?P<signal>\d{1,2})\)")


def read(text: str) -> Iterator[Said]:
    """Events of a report's lines, put together."""
    running, string = _RUNNING.search(text), _STRING.search(text)
    how = _HOW.search(text)
    if running is None and string is None:
        return
    data: Data = {"launcher": "hydra"}
    if running is not None and running.group("rank"):
        data["task"] = number(running.group("rank"))
    signal = string.group("signal") if string is not None else how.group("signal") if how is not None else None
    code = number(how.group("code")) if how is not None else None
    if signal:
        data["signal"] = signals.name(signal)
    elif code is not None:
        data["exitcode"] = code
        named = signals.NAMES.get(code, "") or signals.of_exit(code)
        if named and code not in (1, 2, 3):
            data["signal"] = named
    if signal or code:
        yield Said("launcher.exit", data, host=running.group("host") if running is not None else "")


FAMILY = Family(
    "hydra", (b" RUNNING AT ", b"THE EXIT STRING"), read, re.compile(r" RUNNING AT [\w.:@-]{1,160}\s{0,4}$")
)
