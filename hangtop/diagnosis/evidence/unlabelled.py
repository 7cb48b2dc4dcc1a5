"""Ranks of the watchdogs of torch before 2.2, which put no ``[rank3]:`` in front of their lines.

Their ``[Rank 3]`` (``ProcessGroupNCCL.cpp``: ``"[Rank ", rank_, "] "``) counts within the group; nothing names that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of

TIMEOUT = "torch.watchdog_timeout"


def with_ranks(events: Iterable[LogEvent]) -> list[LogEvent]:
    """Take the rank within the group for the global one, where no such rank speaks of one collective twice.

    Where it does, several groups speak, and so where another watchdog says its global rank: then nothing is known.
    """
    events = [by_group_rank(event) if _of_the_world(event) else event for event in events]
    bare = [
        event
        for event in events
        if event.kind == TIMEOUT and event.rank is None and not {"group", "guid", "raised"} & event.data.keys()
    ]
    said = Counter((number_of(e, "group_rank"), number_of(e, "seq"), text_of(e, "op"), e.source) for e in bare)
    labelled = any(event.kind.startswith("torch.watchdog") and event.rank is not None for event in events)
    if not bare or labelled or max(said.values()) > 1:
        return events
    return [by_group_rank(e) if e.kind == TIMEOUT and not {"group", "guid"} & e.data.keys() else e for e in events]


def by_group_rank(event: LogEvent) -> LogEvent:
    """The event with its rank within the group as its rank, unless it has one."""
    rank = number_of(event, "group_rank") if event.rank is None else None
    return event if rank is None else event._replace(rank=rank)


def _of_the_world(event: LogEvent) -> bool:
    """A word of torch about the group of all ranks: there the rank within the group is the global one."""
    return event.rank is None and event.kind.startswith("torch.") and event.data.get("group_name") == "default_pg"
