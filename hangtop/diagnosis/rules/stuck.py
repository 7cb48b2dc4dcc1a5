"""A rank that does not wait holds up those who do: it reads, saves, locks or computes, and does not come back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.case import Case, works
from hangtop.diagnosis.finding import Finding, NextStep
from hangtop.diagnosis.jams import Jam
from hangtop.diagnosis.proof import crowd_of, of_standing, watch_of
from hangtop.diagnosis.standing import Standing, in_c_code
from hangtop.diagnosis.tables.thresholds import WORTH_SAYING_S
from hangtop.diagnosis.words import count, duration, on_nodes, ranks_text

COMING_UP = frozenset({"init", "store"})
"""What ranks wait in that have not yet begun to train."""

ADVICE = {
    "rank_stuck_in_data": "Look at the storage behind the data and at the worker processes of this rank; run once with "
    "num_workers=0 to see the real error.",
    "rank_stuck_in_checkpoint": "Check the file system that it writes to. If only one rank saves, raise the time-out "
    "of that group or save asynchronously.",
    "rank_stuck_on_lock": "Find who holds the lock: look at the other threads of this rank. A lock that was held while "
    "a worker was forked is never released in the worker.",
    "rank_stuck_in_code": "Look at this frame: it is the only place where the job does not go on.",
}


def stuck_in_code(case: Case) -> Iterator[Finding]:
    """Yield rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_on_lock and rank_stuck_in_code.

    Needs stacks of the rank and of some that wait for it, in two looks or more (or one look in a job that has stood
    still), over the patience; a rank that visibly works at something that takes long is given a minute at the least.
    """
    jam = case.jam
    if jam is None or jam.shape != "held_up" or coming_up(jam):
        return
    for (kind, _), members in _alike(jam).items():
        if jam.held >= min(case.due(member) for member in members):
            yield _finding(case, jam, kind, members)


def waits(case: Case) -> Iterator[Finding]:
    """waiting: ranks wait for one that visibly works, and not for longer than that may take; no alarm.

    Needs stacks in two looks or more.
    """
    jam = case.jam
    if jam is None or jam.shape != "held_up" or jam.held < WORTH_SAYING_S:
        return
    members = [c for c in jam.culprits if c.stance == "working" and c.activity and jam.held < case.due(c)]
    if not members or len(members) < len(jam.culprits):
        return
    first = members[0]
    label = first.activity.label if first.activity else ""
    yield Finding(
        "waiting", "info", 0.8,
        f"{count(len(jam.crowd), 'rank')} waiting {duration(jam.held)} for {ranks_text(m.rank for m in members)}: "
        f"{first.where or label}",
        ranks=tuple(member.rank for member in members),
        nodes=_nodes(members),
        evidence=(*of_standing(first), *crowd_of(jam)),
        advice="No alarm: this may take long. It becomes one when it lasts far longer than before.",
    )  # fmt: skip


def coming_up(jam: Jam) -> bool:
    """True where most who wait still wait to start: that is init_hang, whoever has not come."""
    coming = [one for one in jam.crowd if one.activity and one.activity.kind in COMING_UP]
    return bool(coming) and len(coming) * 2 >= len(jam.crowd)


def kind_of(standing: Standing) -> str:
    """Choose the kind of being stuck by what the rank does, then by what it does that for.

    A rank that sleeps in C code below its own line most likely wants a lock: ``with lock:`` has no frame of its own.
    """
    doing = standing.activity
    assert doing is not None
    if doing.kind == "lock" or (in_c_code(standing) and not doing.context & {"data", "checkpoint"}):
        return "rank_stuck_on_lock"
    if doing.kind == "checkpoint" or "checkpoint" in doing.context:
        return "rank_stuck_in_checkpoint"
    if doing.kind == "data" or "data" in doing.context:
        return "rank_stuck_in_data"
    return "rank_stuck_in_code"


def _alike(jam: Jam) -> dict[tuple[str, str], list[Standing]]:
    """Culprits that are stuck at the same place, in one group."""
    groups: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for culprit in jam.culprits:
        if culprit.stance == "working" and culprit.activity is not None:
            groups[kind_of(culprit), culprit.where].append(culprit)
    return groups


def _finding(case: Case, jam: Jam, kind: str, members: Sequence[Standing]) -> Finding:
    first = members[0]
    doing = first.activity
    assert doing is not None
    manner = _manner(first)
    holder = f"; {doing.holder.name} holds it: {doing.holder.where}" if doing.holder else ""
    what = first.where or doing.label
    return Finding(
        kind,
        "critical",
        _confidence(case, jam, members),
        f"{ranks_text(m.rank for m in members)} {on_nodes(m.node for m in members)}".rstrip()
        + f" {'hold' if len(members) > 1 else 'holds'} up {count(len(jam.crowd), 'other')}: {what}{manner}{holder}",
        ranks=tuple(member.rank for member in members),
        nodes=_nodes(members),
        evidence=(*of_standing(first), *crowd_of(jam), watch_of(jam, len(first.glances))),
        advice=ADVICE[kind],
        next=(NextStep("d", f"hangtop stacks {first.node or 'NODE'} --rank {first.rank} --native"),),
    )


def _manner(standing: Standing) -> str:
    """Say whether it computes or hangs in a call, where that is known."""
    doing = standing.activity
    if standing.motion.busy or (doing and doing.cpu == "busy"):
        return ", busy"
    if standing.motion.blocked or (doing and doing.cpu == "blocked"):
        return f", blocked on {doing.waiting_on}" if doing and doing.waiting_on else ", blocked"
    return ""


def _confidence(case: Case, jam: Jam, members: Sequence[Standing]) -> float:
    """Weigh what was seen: a blocked culprit and a crowd that stands still are as sure as stacks can be."""
    sure = 0.92 if jam.frozen else 0.8
    if any(member.frozen is not True for member in members):
        sure -= 0.12
    if any(works(member) for member in members):
        sure -= 0.15
    if any(in_c_code(member) for member in members):
        sure -= 0.15
    if len(members) * 2 > len(members) + len(jam.crowd):
        sure -= 0.1
    if len({culprit.where for culprit in jam.culprits}) > 1:
        sure -= 0.1
    if case.job.watched >= 60 and jam.held >= 60:
        sure += 0.05
    return round(max(0.3, sure), 2)


def _nodes(members: Sequence[Standing]) -> tuple[str, ...]:
    return tuple(sorted({member.node for member in members if member.node}))
