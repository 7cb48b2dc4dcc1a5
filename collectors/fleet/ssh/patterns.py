"""Pattern lists of ssh_config and known_hosts: ``*`` and ``?``, commas, ``!`` for what must not match."""

from __future__ import annotations

import re
from functools import lru_cache


def is_plain(pattern: str) -> bool:
    """True when a pattern is a name and nothing else."""
    return not any(sign in pattern for sign in "*?!,")


def match_list(text: str, patterns: str) -> bool:
    """Whether one of the comma-separated patterns matches and none of those with ``!`` does."""
    wanted, unwanted = _compiled(patterns)
    return wanted.fullmatch(text) is not None and unwanted.fullmatch(text) is None


@lru_cache(maxsize=4096)
def _compiled(patterns: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    parts = [part.strip() for part in patterns.split(",") if part.strip()]
    wanted = [_expression(part) for part in parts if not part.startswith("!")]
    unwanted = [_expression(part[1:]) for part in parts if part.startswith("!")]
    return tuple(re.compile("|".join(some) or r"(?!)", re.DOTALL) for some in (wanted, unwanted))  # type: ignore[return-value]


def _expression(pattern: str) -> str:
    # Runs of stars match what one matches, and would take exponential time.
    parts = re.split(r"(\*+|\?)", pattern)
    return "".join(".*" if part.startswith("*") else "." if part == "?" else re.escape(part) for part in parts)
