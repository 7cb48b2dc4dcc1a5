"""The interpreter itself is held: one thread keeps the GIL and does not run."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.case import Case
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.proof import of_standing
from hangtop.diagnosis.scene import Standing
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS
from hangtop.diagnosis.words import on_nodes

KNOWN = frozenset({"data", "checkpoint", "lock"})
"""What a main thread may be stuck in while it keeps the GIL: opening and writing files in C++ often does not let go."""


def gil_hang(case: Case) -> Iterator[Finding]:
    """gil_hang: one thread holds the GIL in every look and the process uses no CPU, or the watchdog says it is stuck.

    Needs dumps that tell the GIL's owner, in two looks or more: Python code that blocks gives the GIL back, so an owner
    that does not run sits in native code. The watchdog's own line (``torch.watchdog_stuck``) proves it without stacks.
    """
    stuck = {event.rank: event for event in case.job.events if event.kind == "torch.watchdog_stuck"}
    for standing in case.scene.of("working"):
        owner = _owner(standing)
        if owner is None or _known_wait(standing) or not (case.hung or standing.rank in stuck):
            continue
        yield Finding(
            "gil_hang", "critical", 0.85,
            f"rank {standing.rank} {on_nodes([standing.node])}: thread {owner} keeps the GIL in native code and does "
            "not run, so no Python thread of that rank can",
            ranks=(standing.rank,), nodes=(standing.node,) if standing.node else (),
            evidence=of_standing(standing),
            advice="A C extension or a CUDA call blocks without giving the GIL back: dump it with native frames.",
        )  # fmt: skip
        stuck.pop(standing.rank, None)
    for rank, event in sorted(stuck.items(), key=lambda item: -1 if item[0] is None else item[0]):
        yield Finding(
            "gil_hang", "critical", 0.6,
            f"rank {'?' if rank is None else rank}: NCCL's watchdog made no progress itself, so the GIL or a CUDA call "
            "of that rank is stuck",
            ranks=() if rank is None else (rank,),
            evidence=(Evidence(f"{event.source}:{event.line}", event.at, event.text.splitlines()[0]),),
            advice="Dump the stacks of that rank with native frames; look for Xid lines on its node.",
        )  # fmt: skip


def _known_wait(standing: Standing) -> bool:
    """The owner is the very thread that is stuck, and what it does is known: that says more than "holds the GIL"."""
    doing = standing.activity
    if doing is None or doing.gil is None or doing.gil.role != "main":
        return False
    return doing.kind in KNOWN or bool(doing.context & KNOWN)


def _owner(standing: Standing) -> str | None:
    owners = {glance.gil.name if glance.gil else "" for glance in standing.glances}
    blocked = standing.motion.blocked or (standing.activity is not None and standing.activity.cpu == "blocked")
    if len(standing.glances) < LATE_LOOKS or len(owners) != 1 or not blocked:
        return None
    return owners.pop() or None
