"""Observations put as evidence: who saw it, when, and what it looked like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import Evidence, Observer
from hangtop.diagnosis.phrasing import count, duration, rank_text, ranks_on, ranks_text, size
from hangtop.diagnosis.tables.thresholds import TRICKLE_BYTES_PER_S
from hangtop.diagnosis.tables.wchan import sleep_at
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus

FRAMES_SHOWN, PLACES_SHOWN = 8, 4


def stack_of(status: RankStatus) -> Evidence | None:
    """Return the innermost frames of one rank; None when it has none."""
    doing = status.activity
    if doing is None or not (doing.frames or doing.error):
        return None
    source = f"py-spy {ranks_on([status.rank], [status.node])}"
    if not doing.frames:
        return Evidence(
            Observer.STACKS, source, doing.at, f"{doing.error}: {doing.said}" if doing.said else doing.error
        )
    shown = doing.frames[-FRAMES_SHOWN:]
    dots = ["…"] if len(shown) < len(doing.frames) else []
    return Evidence(Observer.STACKS, source, doing.at, " → ".join([*dots, *shown]))


def process_of(status: RankStatus) -> Evidence | None:
    """Return what the kernel says of one rank's process; None when it says nothing."""
    doing, moved, pid = status.activity, status.motion, status.pid
    words = []
    state = moved.state or (doing.state if doing else "")
    if state:
        words.append(f"state {state}")
    wchan = moved.wchan or (doing.wchan if doing else "")
    if wchan and wchan != "0":
        sleep = sleep_at(wchan)
        meant = f" ({sleep.meaning})" if sleep.meaning and not sleep.ordinary else ""
        words.append(f"in the kernel at {wchan}{meant}")
    if doing and doing.syscall not in ("", "none", "running"):
        words.append(f"system call {doing.syscall}" + (f" on {doing.waiting_on}" if doing.waiting_on else ""))
    if moved.cpu is not None:
        words.append(f"{moved.cpu:.2f} cores over {duration(moved.span)}")
    if doing and (doing.carried or 0.0) > TRICKLE_BYTES_PER_S:
        words.append(f"its connections carry {size(doing.carried or 0.0)}/s")
    if not words:
        return None
    at = doing.at if doing else None
    return Evidence(
        Observer.PROCESS,
        f"/proc/{pid} on {status.node}" if pid else f"process of {rank_text(status.rank)}",
        at,
        ", ".join(words),
    )


def waiters_of(graph: WaitGraph) -> tuple[Evidence, ...]:
    """Return where those who wait are waiting, one line a place."""
    lines = []
    for point in graph.points:
        places: dict[str, list[RankStatus]] = {}
        for member in point.members:
            places.setdefault(member.where if point.kind == "device" and member.seen else "", []).append(member)
        for members in sorted(places.values(), key=lambda members: -len(members)):
            part = replace(point, members=tuple(members))
            seen = any(member.seen for member in members)
            observer, source = (Observer.STACKS, "py-spy") if seen else (Observer.PROCESS, "GPUs and processes of")
            at = members[0].activity.at if members[0].activity else None
            lines.append(Evidence(observer, f"{source} {ranks_text(part.ranks)}", at, f"waiting {part.told}"))
    return tuple(lines[:PLACES_SHOWN])


def watch_of(graph: WaitGraph, looks: int) -> Evidence:
    """Return how long it was watched, and over how many looks nothing changed."""
    if looks <= 1:
        return Evidence(Observer.CONTEXT, "watch", None, "one look: it tells where each was, not for how long")
    moved = "nothing moved" if graph.frozen else "the same picture"
    return Evidence(Observer.CONTEXT, "watch", None, f"{moved} for {duration(graph.held)}, {looks} looks")


def threads_of(job_status: JobStatus, members: Sequence[RankStatus], apart: RankStatus) -> Evidence:
    """Return what the threads beside the main one use, of the rank that is unlike the others and of those."""
    others = sorted(one.motion.threads or 0.0 for one in members if one.rank != apart.rank)
    own = f"{rank_text(apart.rank)} {apart.motion.threads or 0.0:.2f} cores"
    figures = f"{own}, the others {others[0]:.2f} to {others[-1]:.2f}"
    return Evidence(
        Observer.PROCESS, f"/proc of {count(len(members), 'rank')}", job_status.job.now,
        f"threads beside the main one (NCCL's for the network never sleeps while an operation is under way): {figures}",
    )  # fmt: skip


def evidence_of(status: RankStatus) -> tuple[Evidence, ...]:
    """Return stack and process of one rank, as far as they are known."""
    return tuple(line for line in (stack_of(status), process_of(status)) if line)
