"""Which errors of one log were told by runs before the last, or are told time and again without an end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from collectors.samples.logs import LogEvent

LAUNCHERS = ("elastic.", "launcher.")
"""Words of who started ranks: where one stands behind a fault, steps behind it may be those of the other ranks."""
UNCAUGHT = re.compile(
    r"\ATraceback \(most recent call last\):\s{1,8}File \"(?P<program>[^\"\r\n<]{1,400})\", line \d{1,7}, in <module>\s"
)
"""A traceback through the outermost frame of a program's own file."""
OFTEN, WORDS = 3, 24
"""Times that processes told of one error and lived to do so again, and characters by which it is the same."""
_DIGITS = re.compile(r"\d+")


def of_earlier_runs(events: Sequence[LogEvent], over: Sequence[bool]) -> list[bool]:
    """Of each event whether its own rank came to the end of training later, or a launcher's report behind was outlived.

    Where the run that a launcher gave up is over, so is what its ranks had said until then.
    """
    done = {event.rank: event.line for event in events if event.kind == "job.finished" and event.rank is not None}
    reports = [
        event.line
        for event, outlived in zip(events, over, strict=True)
        if outlived and event.kind in ("elastic.failure", "elastic.failed")
    ]
    given_up = max(reports, default=0)
    own = [(event.line, _about(event)) for event in events]
    return [line < max(given_up, done.get(rank, 0) if rank is not None else 0) for line, rank in own]


def _about(event: LogEvent) -> int | None:
    rank = event.data.get("failed_rank", event.rank)
    return rank if isinstance(rank, int) else None


def raised_again(events: Sequence[LogEvent]) -> list[bool]:
    """Of each event whether it is an error that processes tell of time and again, and live on.

    Only where their lines bear their numbers, as Ray's do, and no launcher tells of an end: one that starts ranks anew
    lets each of them raise the same.
    """
    if any(event.kind.startswith((*LAUNCHERS, "slurm.")) for event in events):
        return [False] * len(events)
    by_process = Counter((event.pid, shape) for event in events if event.pid is not None for shape in _shapes(event))
    lived: Counter[str] = Counter()
    for (_, shape), raised in by_process.items():
        lived[shape] += raised - 1
    return [any(lived[shape] >= OFTEN for shape in _shapes(event)) for event in events]


def _shapes(event: LogEvent) -> list[str]:
    """By what exceptions, and errors that were logged, are the same: the first words, and where they were raised."""
    level = event.kind == "log.error" and event.data.get("told") == "level"
    if not level and (event.kind != "python.exception" or UNCAUGHT.match(event.text)):
        return []
    place, message = (_DIGITS.sub("#", str(event.data.get(name, ""))) for name in ("frame", "message"))
    said = f"{event.data.get('type', '')}: {message[:WORDS]}"
    return [words for words in (said, place) if len(words) > WORDS // 2]
