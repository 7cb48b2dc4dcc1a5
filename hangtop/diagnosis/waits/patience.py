"""How long a job may stand still before that is an alarm, and what its own libraries' patience is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hangtop.diagnosis.tables.thresholds import LOOKS_SLACK_S, LOOKS_SLACK_SHARE

DEFAULT_TIMEOUT = 600.0
"""Seconds after which torch gives up a collective of NCCL, unless it is told otherwise."""
OF_TIMEOUT = 0.5
"""Part of that time-out up to which a pause may be usual: who is told later cannot look at the job any more."""
OF_PAUSE = 2.0
"""So many times its usual pause is far outside what a job did before."""

_SECONDS = {"minutes": 60.0, "min": 60.0, "mins": 60.0, "seconds": 1.0, "secs": 1.0, "s": 1.0, "": 1.0}
_OPTION = re.compile(
    r"--?(?:ddp|nccl|dist(?:ributed)?|pg|process[-_]group|collective|comm\.train)[-_]?timeout"
    r"(?:[-_](?P<unit>minutes|mins?|seconds|secs|s))?[ =](?P<n>\d{1,6})(?![\w.])",
    re.IGNORECASE,
)


def told_timeout(command: str) -> float | None:
    """Seconds after which a collective is given up, by the options of a training script; None where none says."""
    found = _OPTION.search(command)
    return None if found is None else float(found.group("n")) * _SECONDS[(found.group("unit") or "").lower()]


def own_timeout(commands: Iterable[str], seen_ms: Iterable[object] = ()) -> float | None:
    """Seconds after which a job gives up a collective: what its watchdogs said, in ms, or its ranks' commands.

    None where neither tells. The shortest counts.
    """
    said = [ms / 1000.0 for ms in seen_ms if isinstance(ms, int | float) and ms > 0]
    said += [seconds for command in set(commands) if (seconds := told_timeout(command))]
    return min(said, default=None)


def alarm_after(patience: float, usual_pause: float | None, timeout: float | None) -> float:
    """Seconds of status still that are far outside what a job did before and the user's patience."""
    usual = min(OF_PAUSE * (usual_pause or 0.0), OF_TIMEOUT * (timeout or DEFAULT_TIMEOUT))
    return max(patience, usual)


def seen_after(due: float) -> float:
    """What is left of this when the first and the last look have cut off their part of the time that was watched."""
    return due - min(LOOKS_SLACK_S, LOOKS_SLACK_SHARE * due)
