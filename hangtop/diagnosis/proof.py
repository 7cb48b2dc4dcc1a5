"""Observations put as evidence: who saw it, when, and what it looked like."""

from __future__ import annotations

from hangtop.diagnosis.finding import Evidence
from hangtop.diagnosis.jams import Jam
from hangtop.diagnosis.standing import Standing
from hangtop.diagnosis.words import duration, ranks_text

FRAMES_SHOWN = 8


def stack_of(standing: Standing) -> Evidence | None:
    """Return the innermost frames of one rank; None when it has none."""
    doing = standing.activity
    if doing is None or not (doing.frames or doing.error):
        return None
    source = f"py-spy rank {standing.rank}" + (f" on {standing.node}" if standing.node else "")
    if not doing.frames:
        return Evidence(source, doing.at, f"{doing.error}: {doing.said}" if doing.said else doing.error)
    shown = doing.frames[-FRAMES_SHOWN:]
    dots = ["…"] if len(shown) < len(doing.frames) else []
    return Evidence(source, doing.at, " → ".join([*dots, *shown]))


def process_of(standing: Standing) -> Evidence | None:
    """Return what the kernel says of one rank's process; None when it says nothing."""
    doing, moved, pid = standing.activity, standing.motion, standing.pid
    words = []
    state = moved.state or (doing.state if doing else "")
    if state:
        words.append(f"state {state}")
    wchan = moved.wchan or (doing.wchan if doing else "")
    if wchan and wchan != "0":
        words.append(f"in the kernel at {wchan}")
    if doing and doing.syscall not in ("", "none", "running"):
        words.append(f"system call {doing.syscall}" + (f" on {doing.waiting_on}" if doing.waiting_on else ""))
    if moved.cpu is not None:
        words.append(f"{moved.cpu:.2f} cores over {duration(moved.span)}")
    if not words:
        return None
    at = doing.at if doing else None
    return Evidence(
        f"/proc/{pid} on {standing.node}" if pid else f"process of rank {standing.rank}", at, ", ".join(words)
    )


def crowd_of(jam: Jam) -> tuple[Evidence, ...]:
    """Return where those who wait are waiting, one line a place."""
    lines = []
    for site in jam.sites[:4]:
        first = site.members[0]
        at = first.activity.at if first.activity else None
        where = f" at {site.where}" if site.where else ""
        lines.append(Evidence(f"py-spy {ranks_text(site.ranks)}", at, f"waiting in {site.name}{where}"))
    return tuple(lines)


def watch_of(jam: Jam, looks: int) -> Evidence:
    """Return how long it was watched, and over how many looks nothing changed."""
    if looks <= 1:
        return Evidence("watch", None, "one look: it tells where each was, not for how long")
    moved = "nothing moved" if jam.frozen else "the same picture"
    return Evidence("watch", None, f"{moved} for {duration(jam.held)}, {looks} looks")


def of_standing(standing: Standing) -> tuple[Evidence, ...]:
    """Return stack and process of one rank, as far as they are known."""
    return tuple(line for line in (stack_of(standing), process_of(standing)) if line)
