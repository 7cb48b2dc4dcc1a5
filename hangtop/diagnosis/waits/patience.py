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

_OPTION = re.compile(
    r"--?(?:ddp|nccl|dist(?:ributed)?|pg|process[-_]group|collective)[-_]?timeout([-_]min\w*)?[-_\w]*[ =](\d{1,6})\b",
    re.IGNORECASE,
)


def own_timeout(commands: Iterable[str], seen_ms: Iterable[object] = ()) -> float | None:
    """Seconds after which a job gives up a collective: what its watchdogs said, in ms, or options of its script.

    None where neither tells. The shortest counts.
    """
    said = [ms / 1000.0 for ms in seen_ms if isinstance(ms, int | float)]
    said += [float(n) * (60.0 if minutes else 1.0) for text in set(commands) for minutes, n in _OPTION.findall(text)]
    return min((seconds for seconds in said if seconds > 0), default=None)


def alarm_after(patience: float, usual_pause: float | None, timeout: float | None) -> float:
    """Seconds of status still that are far outside what a job did before and the user's patience."""
    usual = min(OF_PAUSE * (usual_pause or 0.0), OF_TIMEOUT * (timeout or DEFAULT_TIMEOUT))
    return max(patience, usual)


def seen_after(due: float) -> float:
    """What is left of this when the first and the last look have cut off their part of the time that was watched."""
    return due - min(LOOKS_SLACK_S, LOOKS_SLACK_SHARE * due)
