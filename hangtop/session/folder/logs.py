"""What a log as a whole is: whose lines without a label are, how it ends, and what kind of log it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from collectors.node.logs import counters, hccl
from collectors.node.logs.names import Hints
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.values import Value

_KERNEL = re.compile(
    rb"^(?:\[ *\d+\.\d{6}\]|<\d+>\[|\w{3} +\d+ \d\d:\d\d:\d\d \S+ kernel:|\[\w{3} \w{3} +\d+)", re.MULTILINE
)
ORDINARY = 40
"""Lines after a logged exception that show that the run went on; shutting down prints fewer."""
_OF_NOBODY = ("elastic.", "launcher.", "slurm.", "kernel.", "log.")
"""Kinds that launchers and kernels print: the file's rank is not theirs."""


def finished(events: Sequence[LogEvent], parser: LogParser, hints: Hints) -> list[LogEvent]:
    """The log's events with what only its end tells: the rank of unlabelled lines, and that it ended."""
    owner = _owner(events)
    last_line = parser.line - 1
    raised = max((e.line for e in events if _raised(e)), default=-1)
    step = _last_step(parser)
    told = []
    for event in events:
        if event.rank is None and owner is not None and _own(event):
            event = event._replace(rank=owner)  # noqa: PLW2901 - the same event, its rank filled in
        elif event.rank is None and hints.local_rank is not None and "local_rank" not in event.data:
            event = event._replace(data={**event.data, "local_rank": hints.local_rank})  # noqa: PLW2901 - as above
        if event.data.get("logged") is True and _survived(event, raised, last_line):
            event = event._replace(data={**event.data, "survived": True})  # noqa: PLW2901 - as above
        if event.kind == "log.error" and (event.line < step or last_line - event.line > ORDINARY):
            event = event._replace(data={**event.data, "survived": True})  # noqa: PLW2901 - as above
        told.append(event)
    last = parser.last_time()
    data: dict[str, Value] = {"lines": parser.line - 1}
    if last is not None:
        data["last"] = last
    told.append(LogEvent("log.end", last, hints.rank, hints.host, None, parser.source, parser.line - 1, "", data))
    return told


def _last_step(parser: LogParser) -> int:
    """Number of the last line, of those at the end, in which steps are counted; 0 for none."""
    lines = parser.tail.rstrip(b"\n").split(b"\n")
    for back, line in enumerate(reversed(lines)):
        text = counters.plain(line)
        seen = counters.counted(text)
        if seen is not None and seen.kind != counters.BARE and not counters.is_trouble(text):
            return parser.line - 1 - back
    return 0


def _raised(event: LogEvent) -> bool:
    return event.kind == "python.exception" and "logged" not in event.data and _own(event)


def _survived(event: LogEvent, raised: int, last: int) -> bool:
    """Whether a logged exception was not the end: another one was ``raised`` later, or the log goes on for long."""
    after = event.line + event.text.count("\n") + 1
    return raised > after or last - after > ORDINARY


def _own(event: LogEvent) -> bool:
    return (event.kind == "log.error" or not event.kind.startswith(_OF_NOBODY)) and event.data.get(
        "launcher"
    ) is not True


def _owner(events: Sequence[LogEvent]) -> int | None:
    """The one rank whose label the log has; None when it has several or none, or other processes' NCCL lines."""
    ranks = {event.rank for event in events if event.rank is not None}
    processes = {
        (event.host, event.pid) for event in events if event.pid is not None and event.kind.startswith("nccl.")
    }
    return next(iter(ranks)) if len(ranks) == 1 and len(processes) <= 1 else None


def kind_of_log(head: bytes, events: Sequence[LogEvent], progress: Sequence[CommProgress], hints: Hints) -> str:
    """What to call it."""
    families = Counter(event.kind.partition(".")[0] for event in events if not event.kind.startswith("log."))
    if len(_KERNEL.findall(head[:8192])) * 2 > head[:8192].count(b"\n"):
        return "kernel log"
    if families["hccl"] * 2 > sum(families.values()) or hccl.PLOG.match(head.decode("utf-8", "replace")):
        return "HCCL log (Ascend plog)" if b"HCCL(" in head else "rank log with HCCL"
    if progress or families["nccl"]:
        return "NCCL log" if families["nccl"] + len(progress) > sum(families.values()) // 2 else "rank log with NCCL"
    if families["slurm"] or b"srun: " in head or b"slurmstepd: " in head:
        return "Slurm output"
    if families["kernel"] and not families["torch"] and not families["python"]:
        return "kernel log"
    if families["elastic"]:
        return "torchrun log"
    if hints.stream or families or hints.rank is not None:
        return "rank log"
    return "text"
