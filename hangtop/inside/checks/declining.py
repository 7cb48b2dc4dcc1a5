"""What a rank does that was asked for a check which it cannot make: it leaves word of why, so that nobody waits for it.

It waits for nobody either: whoever saw a question too late may be needed where the others still are.
"""

from __future__ import annotations

from typing import Any

from hangtop.inside.checks.meeting import excused, group_of, harmless
from hangtop.inside.results import CheckResult

SECONDS = 2.0
"""For which a store that does not answer is waited for."""


def decline(check: str, why: str, *, group: Any, number: int) -> CheckResult:
    """Tell those of ``group`` who come to ``check`` that this rank does not make it."""

    def left() -> CheckResult:
        return excused(check, group_of(group), SECONDS, why, number)

    return harmless(check)(left)()
