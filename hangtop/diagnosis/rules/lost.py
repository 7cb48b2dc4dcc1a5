"""Ranks that ended without a word of their own, told by those who lost the connection to them."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import when
from hangtop.diagnosis.evidence.events import event_line, ranks_in
from hangtop.diagnosis.failures.ends import of_children
from hangtop.diagnosis.failures.record import Failure
from hangtop.diagnosis.failures.unheard import UnheardRanks, kill_at_end, kill_told, segfault_at_end, segfault_told
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, on_nodes, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.absent import OUT_OF_MEMORY, RAN_OUT

LOOK_FOR_THE_KILL = (
    "Look at the kernel log of its node for an OOM kill or a segmentation fault, and at the batch system's accounting."
)
SEGFAULT = (
    "Compiled code that it called crashed (a C extension, a library, a driver): with PYTHONFAULTHANDLER=1 "
    "Python writes where. Compare versions, and look whether it is always the same node (memory)."
)


def left_early(job: Job, early: Sequence[LogEvent], closed: Sequence[LogEvent]) -> Finding:
    """A rank that was done while others still wanted it: they lost the connection when it closed its own."""
    ranks = ranks_in(early)
    on = f"{on_nodes(homes(job, ranks))} " if homes(job, ranks) else ""
    return Finding(
        "rank_left_early", "critical", 0.7,
        f"{ranks_text(ranks)} {on}finished, and others then lost the connection to "
        f"{'it' if len(ranks) == 1 else 'them'}",
        ranks=ranks, nodes=homes(job, ranks), evidence=tuple(map(event_line, (*early[:2], *closed[:2]))),
        advice=RAN_OUT,
    )  # fmt: skip


def left_no_word(
    job: Job,
    wordless: UnheardRanks,
    ended: Sequence[tuple[Failure, ...]],
    closed: Sequence[LogEvent],
    launcher: Sequence[LogEvent] = (),
) -> Finding:
    """Ranks without a word, to which others lost their connections: killed, as a rule.

    ``launcher``: its words that they are gone, where it has any. Says of a kill for want of memory there and then.
    """
    spoke = {words[0].rank for words in ended if not of_children([words])} - {None}
    victims = spoke | set(ranks_in(closed))
    lost = f"{count(len(victims), 'other')} lost" if victims else "the others lost"
    proof = [*launcher[:1], *closed] if closed else [words[0].event for words in ended]
    nodes = (wordless.node,) if wordless.node else homes(job, wordless.ranks)
    on = f"{on_nodes(nodes)} " if nodes else ""
    at = min((at for at in map(when, proof) if at is not None), default=None)
    kill = kill_at_end(job, nodes[0], at) if at is not None and len(nodes) == 1 else None
    fault = segfault_at_end(job, nodes[0], at) if at is not None and len(nodes) == 1 and kill is None else None
    how = kill_told(job, kill) if kill else segfault_told(job, fault) if fault else "most likely killed"
    return Finding(
        "rank_crashed" if fault else "rank_killed", "critical", 0.85 if kill else 0.8 if fault else 0.7,
        f"{ranks_text(wordless.ranks)} {on}left no word, and {lost} the connection "
        f"to {'it' if len(wordless.ranks) == 1 else 'them'}: {how}",
        ranks=wordless.ranks, nodes=nodes,
        evidence=tuple(event_line(event) for event in (kill, fault, *proof[:3]) if event is not None),
        advice=OUT_OF_MEMORY if kill else SEGFAULT if fault else LOOK_FOR_THE_KILL,
    )  # fmt: skip


def came_to_its_end(
    job: Job, ranks: tuple[int, ...], reports: Sequence[LogEvent], closed: Sequence[LogEvent]
) -> Finding:
    """Ranks without a word that, by their launcher's report, did not fail: they left while the others wanted them."""
    nodes = homes(job, ranks) or tuple(sorted({event.host for event in reports} - {""}))
    on = f"{on_nodes(nodes)} " if nodes else ""
    it = "it" if len(ranks) == 1 else "them"
    return Finding(
        "rank_left_early", "critical", 0.75,
        f"{ranks_text(ranks)} {on}ended with exit code 0, and others then lost the connection to {it}: torchrun lists "
        f"{it} neither among those that failed nor among those that it ended",
        ranks=ranks, nodes=nodes, evidence=tuple(map(event_line, (*reports[:2], *closed[:2]))),
        advice="Did its data run out before the others', did it stop early, or catch an exception and return? Give "
        "every rank the same number of batches, or use torch.distributed.algorithms.join.",
    )  # fmt: skip


def lingers(job: Job, rank: int, ended: Sequence[tuple[Failure, ...]], closed: Sequence[LogEvent]) -> Finding:
    """A rank that is still there, and to which all others lost their connections: it has left what they are in."""
    victims = {words[0].rank for words in ended} | set(ranks_in(closed))
    nodes = homes(job, (rank,))
    on = f"{on_nodes(nodes)} " if nodes else ""
    return Finding(
        "rank_left_early", "critical", 0.6,
        f"{ranks_text((rank,))} {on}is still there and says nothing, and {count(len(victims), 'other')} lost the "
        "connection to it: it left training and shuts down",
        ranks=(rank,), nodes=nodes, evidence=tuple(event_line(event) for event in closed[:3]),
        advice="Did its data run out before the others'? Look at its stack, and at what it logged last.",
    )  # fmt: skip
