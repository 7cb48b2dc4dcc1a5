"""Everybody waits: at different operations, in a circle of sends and receives, or all at the same one."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.case import Case
from hangtop.diagnosis.finding import Evidence, Finding, NextStep
from hangtop.diagnosis.gpu_load import Fingerprint, fingerprint
from hangtop.diagnosis.jams import Jam, Site
from hangtop.diagnosis.proof import crowd_of, stack_of, watch_of
from hangtop.diagnosis.scene import Scene
from hangtop.diagnosis.standing import Standing
from hangtop.diagnosis.tables.thresholds import MOVING_SEGMENTS_PER_S
from hangtop.diagnosis.words import count, listed, ranks_text

OPEN_KINDS = frozenset({"device", "backward", "forward"})
"""Kinds of waits whose Python frames do not say in which operation they end."""


def mismatch(case: Case) -> Iterator[Finding]:
    """collective_mismatch: all ranks wait, and not at the same operation; the minority is the odd one.

    Needs stacks of all ranks of the job that can be seen, in two looks or more. A wait in a sub-group ends before the
    wait of the crowd. Where nothing tells which side is odd, both are named.
    """
    jam = case.jam
    if jam is None or jam.shape != "mismatch" or not case.hung:
        return
    crowd = [site for site in jam.sites if site not in jam.accused]
    odd = " and ".join(f"{ranks_text(site.ranks)} {_in(site)}" for site in jam.accused)
    others = " and ".join(f"{count(len(site.members), 'other')} {_in(site)}" for site in crowd[:2])
    yield Finding(
        "collective_mismatch", "critical", _sureness(jam),
        f"ranks wait at different operations: {odd}" + (f", {others}" if others else ""),
        ranks=tuple(culprit.rank for culprit in jam.culprits),
        nodes=_nodes(jam.culprits),
        evidence=(*_stacks(jam.culprits), *crowd_of(jam), watch_of(jam, _looks(jam))),
        advice="Look for a collective behind `if rank == …`, for ranks with a different number of batches, or for "
        "branches that depend on the data.",
        next=(NextStep("r", "hangtop analyze FLIGHT_RECORDER_DUMPS"),),
    )  # fmt: skip


def deadlock(case: Case) -> Iterator[Finding]:
    """p2p_deadlock: ranks wait to receive from (or to send to) one another in a circle.

    Needs stacks in two looks or more; the peers where the frames tell them, else all must want the same side.
    """
    jam = case.jam
    if jam is None or jam.shape != "deadlock" or not case.hung:
        return
    steps = []
    for culprit in jam.culprits:
        doing = culprit.activity
        peer = f" with rank {doing.peer}" if doing and doing.peer is not None else ""
        steps.append(f"rank {culprit.rank} in {doing.op if doing else 'p2p'}{peer}")
    known = all(culprit.activity and culprit.activity.peer is not None for culprit in jam.culprits)
    waiting = f"; {count(len(jam.crowd), 'other')} wait for them" if jam.crowd else ""
    yield Finding(
        "p2p_deadlock", "critical", 0.93 if known and jam.frozen else 0.75,
        f"sends and receives wait in a circle: {listed(steps)}{waiting}",
        ranks=tuple(culprit.rank for culprit in jam.culprits),
        nodes=_nodes(jam.culprits),
        evidence=(*_stacks(jam.culprits), *crowd_of(jam), watch_of(jam, _looks(jam))),
        advice="Pair sends with receives: even ranks send first, odd ranks receive first; or use batch_isend_irecv.",
    )  # fmt: skip


def stalled(case: Case) -> Iterator[Finding]:
    """collective_stalled: every rank of a group is in the same operation and none completes; no rank is odd.

    Needs stacks of all ranks in two looks or more. Ranks that spin (NCCL keeps the CPU busy) count only where their
    GPUs spin too, at low flat power, and no traffic shows that data moves.
    """
    jam = case.jam
    if jam is None or jam.shape not in ("stalled", "stuck_group") or not case.hung:
        return
    site = jam.accused[0]
    if site.kind in ("init", "store", "code") or len(site.members) < 2 or _data_moves(case.scene):
        return
    load = fingerprint(case.job, site.ranks)
    spins = load is not None and load.shape == "all_spin"
    if not jam.frozen and not spins:
        return
    what = f"in {site.name}" + (f" at {site.where}" if site.where else "")
    group = (
        f"{ranks_text(site.ranks)} of a sub-group" if jam.shape == "stuck_group" else f"all {len(site.members)} ranks"
    )
    waiting = f"; {count(len(jam.crowd), 'other')} wait for them" if jam.crowd else ""
    confidence = 0.55 if site.kind in OPEN_KINDS else 0.7
    yield Finding(
        "collective_stalled", "critical", confidence,
        f"{group} wait {what} and none gets through; no rank is odd{waiting}",
        ranks=site.ranks,
        nodes=_nodes(site.members),
        evidence=(*_stacks(site.members[:2]), *crowd_of(jam), *_load_proof(load), watch_of(jam, _looks(jam))),
        advice="The code of all ranks agrees: suspect the network or a GPU, or sizes that differ. Run the allreduce "
        "probe, look at the fabric panel and for Xid lines.",
        next=(NextStep("a", f"hangtop probe {' '.join(_nodes(site.members)) or 'NODES'}"),),
    )  # fmt: skip


def _in(site: Site) -> str:
    return f"in {site.name}" + (f" at {site.where}" if site.where else "")


def _sureness(jam: Jam) -> float:
    sure = 0.88 if jam.frozen else 0.7
    if jam.tied:
        sure -= 0.25
    if any(site.kind in OPEN_KINDS for site in jam.sites):
        sure -= 0.08
    if len({(site.kind, site.op) for site in jam.sites}) == 1:
        sure -= 0.1  # the same operation, called from different lines: it may be one collective after all
    return round(sure, 2)


def _data_moves(scene: Scene) -> bool:
    return (scene.segments_per_s or 0.0) > MOVING_SEGMENTS_PER_S


def _load_proof(load: Fingerprint | None) -> tuple[Evidence, ...]:
    return (load.evidence,) if load else ()


def _stacks(standings: tuple[Standing, ...]) -> tuple[Evidence, ...]:
    return tuple(line for line in map(stack_of, standings[:4]) if line)


def _looks(jam: Jam) -> int:
    return max((len(standing.glances) for standing in (*jam.crowd, *jam.culprits)), default=0)


def _nodes(standings: tuple[Standing, ...]) -> tuple[str, ...]:
    return tuple(sorted({standing.node for standing in standings if standing.node}))
