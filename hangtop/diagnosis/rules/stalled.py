"""The job stands still, and no better rule says who is to blame: that is said, with where each group of ranks is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.evidence.gpu_load import load_proof
from hangtop.diagnosis.finding import Evidence, Finding, NextStep
from hangtop.diagnosis.phrasing import duration, listed, of_several, ranks_on, ranks_text
from hangtop.diagnosis.roster import world_size
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS, LONG_WORK_S, SPIN_UNREAD_S, START_S
from hangtop.diagnosis.waits.job_status import JobStatus, on_its_way
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, stands

ENOUGH = 3
"""Ranks among which one that is unlike all others may be told."""
GROUPS_TOLD = 4
SETTLES = (
    "What would name the rank: stacks (run hangtop as the job's user or root), GPU figures, flight recorder dumps "
    "(TORCH_NCCL_DEBUG_INFO_PIPE_FILE), NCCL RAS, or NCCL_DEBUG=INFO with the subsystem COLL."
)
ALONE = "It is the only rank, and waits for no other: look at what it is at, and at what that reads from or asks."


def job_stalled(job_status: JobStatus, found: Sequence[Finding]) -> Iterator[Finding]:
    """job_stalled: the ranks are alive, none has moved by any sign for longer than is due, and nothing says why.

    Needs the cheap signs of the session alone, and so works without any stack. Names a rank where its GPU or its
    process is unlike those of all others, or which waits where no other does. ``found`` are the findings of all other
    rules.
    """
    job = job_status.job
    if not stands(job) or job.motion.moving:
        return
    if any(f.kind == "waiting" or (f.severity != "info" and word_of(f.kind) in ("hung", "crashed")) for f in found):
        return
    present = [one for one in job_status.present if one.process is not None and one.state != "leaving"]
    if not present or any(job_status.works(one) or one.load == "computing" for one in job_status.statuses.values()):
        return
    if any(one.state == "unseen" and one.motion.moves_data for one in present):
        return  # nobody looked into it, and it saves or reads
    ages = [job.now - one.process.process.started for one in present if one.process is not None]
    if job.motion.last_step is None and max(ages) < START_S:
        return  # a start: see `startup`
    still = job.stood_still or 0.0
    if min(still, *(one.arrived for one in present)) < _due(job_status, present) or on_its_way(job, present):
        return
    odd, why = _odd(job_status, present)
    alone = present if len(present) == 1 and world_size(job) in (1, None) else []
    named = tuple(one.rank for one in odd or alone)
    accused = f"{ranks_on(named, {one.node for one in odd})}: {why}; " if odd else ""
    gpus = [one.process for one in present if one.process is not None and one.load != "unknown"]
    groups = _groups(present)
    yield Finding(
        "job_stalled", "critical", 0.8 if odd and odd[0].load == "idle" else 0.5,
        f"{accused}nothing has moved for {duration(still)}: {listed(groups, GROUPS_TOLD)}",
        ranks=named,
        nodes=nodes_of(odd or alone),
        evidence=(
            *((load_proof(job, gpus),) if gpus else ()),
            *(Evidence("ranks", job.now, group) for group in groups[:GROUPS_TOLD]),
            Evidence("watch", job.now, _last_step(job_status)),
        ),
        advice=ALONE if alone else SETTLES,
        next=(NextStep("r", "hangtop repair launch"),),
    )  # fmt: skip


def standing(job_status: JobStatus) -> str:
    """Where all ranks of a job are that has not moved for a while, and in which none waits for another; else empty."""
    job, present = job_status.job, job_status.present
    if not stands(job) or job.motion.moving or job_status.graph is not None:
        return ""
    if not present or not all(one.read for one in present):
        return ""
    return f"nothing has moved for {duration(job.stood_still or 0.0)}: {listed(_groups(present), GROUPS_TOLD)}"


def _due(job_status: JobStatus, present: Sequence[RankStatus]) -> float:
    """Seconds of standing still after which it is told: more where ranks are at something of their own.

    Ranks that are seen to wait, or unread ones that use no CPU, need no more than the job's own due. Of those that do
    not wait for others the last patience to be over counts; where no stack was read, ranks that burn CPU may compute.
    """
    due = job_status.alarm_after
    own = [job_status.due(one) for one in present if one.state == "working" and one.read and one.load != "spinning"]
    if own:
        return max(due, *own)
    if any(one.state == "unseen" and one.load == "unknown" and one.motion.busy for one in present):
        return max(due, SPIN_UNREAD_S)
    return due if sum(_rests(one) for one in present) * 2 >= len(present) else max(due, LONG_WORK_S)


def _rests(status: RankStatus) -> bool:
    """It is seen to wait for something: by its stack, its GPU or, unread, by using no CPU at all."""
    if status.state in ("waiting", "on_gpu", "stopped", "uninterruptible") or status.load in ("spinning", "idle"):
        return True
    return status.state == "unseen" and status.motion.blocked


def _odd(job_status: JobStatus, present: Sequence[RankStatus]) -> tuple[Sequence[RankStatus], str]:
    """Ranks that are unlike all others, and how.

    An empty GPU among full ones, a sleeper among those that spin, a rank that waits elsewhere but was not seen there
    for long enough, or one that is gone and whose logs, not yet read to their end, may tell how that came.
    """
    empty = [one for one in present if one.load == "idle"]
    full = sum(one.load == "spinning" for one in present)
    if empty and full * 2 > len(present) and len(empty) + full == len(present):
        return empty, f"{'its GPU has' if len(empty) == 1 else 'their GPUs have'} nothing to do while {full} are full"
    by_manner: dict[str, list[RankStatus]] = defaultdict(list)
    for one in present:
        by_manner[_manner(one)].append(one)
    few, *most = sorted(by_manner.values(), key=len)
    if len(present) >= ENOUGH and len(most) == 1 and "" not in by_manner and len(few) <= max(1, len(present) // 4):
        others = of_several(_manner(most[0][0]).removeprefix("it "), len(most[0]))
        return few, f"{_manner(few[0])} while the others {others}"
    graph = job_status.graph
    if graph is not None and graph.pattern == "mismatch" and not graph.tied:
        return graph.culprits, f"{'wait' if len(graph.culprits) > 1 else 'waits'} elsewhere than the others"
    gone = job_status.of("gone")
    return gone, f"{'is' if len(gone) == 1 else 'are'} gone"


def _manner(status: RankStatus) -> str:
    """How its process rests, as far as /proc tells over two looks; empty when it does not."""
    moved = status.motion
    if moved.cpu is None or status.process is None or len(status.process.looks) < LATE_LOOKS:
        return ""
    if moved.busy:
        return "it burns CPU"
    if not moved.blocked:
        return ""
    return f"it sleeps in {moved.wchan}" if moved.wchan and moved.wchan != "0" else "it sleeps"


def _groups(present: Iterable[RankStatus]) -> list[str]:
    """``3 ranks wait for their GPU (synchronize), at train (train.py:50)``, the largest group first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for one in present:
        groups[_where(one)].append(one.rank)
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[1]))
    return [f"{ranks_text(ranks)} {of_several(where, len(ranks))}" for where, ranks in ordered]


def _where(status: RankStatus) -> str:
    doing = status.activity
    if doing is not None and not doing.error:
        return doing.label + (f", at {doing.where}" if doing.where else "")
    manner = _manner(status).removeprefix("it ") or "alive, and nobody could look into it"
    return manner + (f", GPU {status.load}" if status.load != "unknown" else "")


def _last_step(job_status: JobStatus) -> str:
    job = job_status.job
    words = f"no sign of motion from {duration(job.stood_still or 0.0)} ago on"
    if job.motion.last_step is not None and job.motion.last_step_at is not None:
        ago = duration(max(0.0, job.now - job.motion.last_step_at))
        return f"{words}; the last step in a log was {job.motion.last_step:,}, {ago} ago"
    return words
