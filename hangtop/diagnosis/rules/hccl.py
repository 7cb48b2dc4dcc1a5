"""What HCCL, the collectives of Ascend NPUs, says about waits that have ended: for whom, in which collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, folded, listed, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

GUIDE = "Compare the plogs of all ranks (~/ascend/log): the one that reports last, or nothing, is where to look."


@dataclass(slots=True)
class _Process:
    """What one process says of the wait that ended in it: a plog tells it over several lines."""

    events: list[LogEvent] = field(default_factory=list)
    op: str = ""
    group: str = ""
    size: int | None = None
    rank: int | None = None
    """Global rank."""
    place: int | None = None
    """Rank within the group."""
    waits_for: set[int] = field(default_factory=set)
    """Ranks within the group."""


def timed_out(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by HCCL (EI0002): a task waited in vain for another rank's notification.

    Needs HCCL's words in a plog or in what torch_npu raises. One group at a time; whom they name is a culprit only
    where it does not report the same. Ranks count within the group; global ones are told where both are the same.
    """
    events = said(job, "hccl.timeout")
    if not events:
        return
    processes = _processes(events)
    groups: dict[str, list[_Process]] = defaultdict(list)
    for process in processes:
        groups[process.group].append(process)
    group, members = min(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    reporting = {process.place for process in members if process.place is not None}
    awaited = {place for process in members for place in process.waits_for} - reporting
    size = next((process.size for process in members if process.size), None)
    unheard = set(range(size)) - reporting if size and reporting else set()
    missing = awaited or (unheard if len(unheard) * 2 < (size or 0) else set())
    ranks = tuple(sorted(missing)) if _is_world(job, members) else ()
    op = next((process.op for process in members if process.op), "")
    blamed = f"{'rank' if len(missing) == 1 else 'ranks'} {folded(missing)} {'' if ranks else 'of the group '}"
    told = f"{blamed}did not come, as far as logs are here" if missing else "nothing tells who did not come"
    lost = _lost(job)
    what = f"HCCL's {op}" if op else "a wait of an Ascend NPU"
    yield Finding(
        "watchdog_timeout", "critical", 0.7 if missing and len(members) > 1 else 0.5,
        f"{what}{f' of group {group}' if group else ''} timed out on {count(len(members), 'rank')}: {told}{lost}",
        ranks=ranks, nodes=homes(job, ranks) if ranks else hosts_in(job, events),
        evidence=lines([*said(job, "hccl.lost"), *(event for process in members for event in process.events)]),
        advice=f"The time-out (EI0002, HCCL_EXEC_TIMEOUT) is a consequence. {GUIDE}",
    )  # fmt: skip


def _processes(events: Sequence[LogEvent]) -> list[_Process]:
    found: dict[tuple[str, object], _Process] = defaultdict(_Process)
    for event in events:
        process = found[event.host, event.pid or (event.source, event.rank)]
        process.events.append(event)
        process.op = process.op or text_of(event, "op")
        process.group = process.group or text_of(event, "group")
        process.size = process.size or number_of(event, "size")
        process.rank = event.rank if process.rank is None else process.rank
        process.place = number_of(event, "group_rank") if process.place is None else process.place
        remote = number_of(event, "remote")
        process.waits_for |= set() if remote is None else {remote}
    return list(found.values())


def _is_world(job: Job, members: Sequence[_Process]) -> bool:
    """Whether the group's ranks are the job's: those who tell both have the same, or no larger group is known."""
    both = [process for process in members if process.rank is not None and process.place is not None]
    if both:
        return all(process.rank == process.place for process in both)
    sizes = {size for event in said(job, "hccl.init") if (size := number_of(event, "size"))}
    own = {process.size for process in members if process.size}
    return bool(sizes and own) and max(sizes) == max(own)


def _lost(job: Job) -> str:
    """Devices whose heartbeat HCCL lost, as ``address/device``."""
    found = sorted({f"{text_of(event, 'place')}: {text_of(event, 'what')}" for event in said(job, "hccl.lost")})
    return f"; {listed(found)}" if found else ""


def not_connected(job: Job) -> Iterator[Finding]:
    """nccl_init_failed by HCCL (EI0006): a rank waited in vain for another one's connection."""
    events = said(job, "hccl.connect_timeout")
    if not events:
        return
    ranks = ranks_in(events)
    places = {place for event in events if (place := number_of(event, "group_rank")) is not None}
    who = ranks_text(ranks) if ranks else f"{ranks_text(places)} of a group" if places else "a rank"
    yield Finding(
        "nccl_init_failed", "critical", 0.6,
        f"HCCL on {who} waited in vain for another rank's connection{_lost(job)}",
        nodes=hosts_in(job, events), evidence=lines(events),
        advice="EI0006 (HCCL_CONNECT_TIMEOUT): the other rank came too late, is stuck, or cannot be reached over the "
        f"NPUs' network. {GUIDE}",
    )  # fmt: skip
