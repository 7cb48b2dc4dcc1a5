"""Ranks that are not there: never started, ended, or about to end, while others wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.case import Case
from hangtop.diagnosis.failures import by_rank, failures
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.proof import crowd_of, of_standing
from hangtop.diagnosis.scene import world_size
from hangtop.diagnosis.standing import Standing
from hangtop.diagnosis.tables.thresholds import GONE_S, START_S
from hangtop.diagnosis.words import count, duration, listed, on_nodes, ranks_text

UNSEEN_LINKS = ("connecting", "stale", "lost")


def missing(case: Case) -> Iterator[Finding]:
    """rank_missing: WORLD_SIZE counts more ranks than are alive, and those that are there wait.

    Needs the environment of the living ranks, every node in view, and stacks that show the wait. While the processes
    are younger than a start may take, it is a warning.
    """
    absent = case.scene.of("missing")
    jam = case.jam
    if not absent or jam is None or jam.shape != "held_up" or jam.held < case.alarm_after:
        return
    if any(node.link in UNSEEN_LINKS for node in case.job.nodes.values()):
        return  # they may well live on the node that does not answer: that is node_unreachable
    others = [culprit for culprit in jam.culprits if culprit.stance != "missing"]
    age = min((case.job.now - rank.process.started for rank in case.job.ranks if rank.gone_at is None), default=0.0)
    world = world_size(case.job)
    numbers = tuple(standing.rank for standing in absent)
    last = _last_node(case, numbers)
    young = age < START_S
    yield Finding(
        "rank_missing", "warning" if young or others else "critical", 0.5 if others else 0.6 if young else 0.85,
        f"{ranks_text(numbers)} of {world} {'is' if len(numbers) == 1 else 'are'} on no node in view{last}; "
        f"{count(len(jam.crowd), 'rank')} wait",
        ranks=numbers,
        evidence=(
            Evidence("environment of the ranks", None, f"WORLD_SIZE={world}, {len(case.scene.present)} alive"),
            *crowd_of(jam),
        ),
        advice="Look for them: did their launcher start, is their node in the list that hangtop was given, what do "
        "their logs say last?",
    )  # fmt: skip


def _last_node(case: Case, ranks: Sequence[int]) -> str:
    """Name the node where a missing rank belongs, by the ranks of its neighbourhood that are there."""
    homes = set()
    for rank in case.job.ranks:
        size, local = rank.process.local_world_size, rank.process.local_rank
        if size and local is not None:
            first = rank.rank - local
            if any(first <= number < first + size for number in ranks):
                homes.add(rank.node)
    return f" (it should be {on_nodes(homes)})" if homes else ""


def ended(case: Case) -> Iterator[Finding]:
    """rank_killed and rank_left_early of a rank that was seen, is gone without a word, and that the others wait for.

    Needs the process to have been seen; a rank whose log says how it failed is a matter of the rules on failures. One
    that was last seen shutting down left by itself, any other was most likely killed.
    """
    told = by_rank(failures(case.job))
    gone = [standing for standing in case.scene.of("gone") if standing.rank not in told and standing.held >= GONE_S]
    staying = case.scene.present
    if not gone or not staying or not (case.jam and case.jam.crowd):
        return
    left = [standing for standing in gone if standing.activity and standing.activity.kind == "shutdown"]
    for standing in gone:
        if standing in left:
            continue
        last = f"; last seen {standing.activity.label}" if standing.activity and standing.activity.label else ""
        yield Finding(
            "rank_killed", "critical", 0.65,
            f"rank {standing.rank} {on_nodes([standing.node])} is gone since {duration(standing.held)} without a word"
            f"{last}; {count(len(case.jam.crowd), 'other')} wait for it",
            ranks=(standing.rank,), nodes=(standing.node,),
            evidence=(_gone_proof(standing), *of_standing(standing), *crowd_of(case.jam)),
            advice="A rank that writes nothing was killed from outside (out of memory, the batch system, somebody) or "
            "ended by itself: look at the kernel log of its node and at its launcher's last lines.",
        )  # fmt: skip
    if left:
        yield _left_early(case, left)


def leaving(case: Case) -> Iterator[Finding]:
    """rank_left_early: a rank shuts down while others wait in a training collective.

    Needs stacks: destroy_process_group, atexit or the interpreter's end on this rank, a collective on the others.
    """
    jam = case.jam
    leavers = [culprit for culprit in jam.culprits if culprit.stance == "leaving"] if jam else []
    if not leavers or jam is None or jam.held < case.alarm_after:
        return
    told = by_rank(failures(case.job))
    quiet = [standing for standing in leavers if all(f.consequence for f in told.get(standing.rank, ()))]
    if quiet:
        yield _left_early(case, quiet)


def _left_early(case: Case, leavers: Sequence[Standing]) -> Finding:
    jam = case.jam
    crowd = jam.crowd if jam else ()
    numbers = tuple(standing.rank for standing in leavers)
    doing = listed(sorted({standing.where for standing in leavers if standing.where}))
    return Finding(
        "rank_left_early", "critical", 0.85,
        f"{ranks_text(numbers)} {on_nodes(s.node for s in leavers)}".rstrip() + " left training"
        f"{f' ({doing})' if doing else ''} while {count(len(crowd), 'other')} wait in it",
        ranks=numbers,
        nodes=tuple(sorted({standing.node for standing in leavers if standing.node})),
        evidence=(*of_standing(leavers[0]), *(crowd_of(jam) if jam else ())),
        advice="Its data ran out before the others': give every rank the same number of batches, or use "
        "torch.distributed.algorithms.join.",
    )  # fmt: skip


def _gone_proof(standing: Standing) -> Evidence:
    process = standing.process
    pid = process.process.pid if process else 0
    return Evidence(
        f"/proc on {standing.node}", process.gone_at if process else None, f"process {pid} is no longer there"
    )
