"""Ends of ranks that others tell of: a launcher alone, or those who lost their connections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import numbers_of, text_of, when, words_of
from hangtop.diagnosis.evidence.events import event_line, ranks_in, said
from hangtop.diagnosis.failures.ends import of_children
from hangtop.diagnosis.failures.record import Failure
from hangtop.diagnosis.failures.unheard import UnheardRanks, kill_at_end, kill_told, segfault_at_end, segfault_told
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, on_nodes, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.absent import OUT_OF_MEMORY, RAN_OUT
from hangtop.diagnosis.verdict.aftermath import finished

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


_RENDEZVOUS = re.compile(r"elastic[/\\]rendezvous[/\\]\w{1,60}\.py")
TOLD_TO_END = ("slurm.cancelled", "elastic.signal")


def launcher_alone(job: Job) -> Iterator[Finding]:
    """child_failed_no_detail by a launcher's traceback, or by its ending the other ranks; their words are elsewhere.

    A traceback that ends in its rendezvous is store_timeout. Needs a log without any other word about a rank's end, and
    without one that the launcher was told to end.
    """
    raised = [
        event
        for event in said(job, "python.exception")
        if event.data.get("launcher") is True or text_of(event, "signature") == "child_failed"
    ]
    told = [event for event in raised if text_of(event, "signature") in ("child_failed", "user")]
    failed = [event for event in said(job, "elastic.restart") if "attempts_left" in event.data]
    ended = [*said(job, "launcher.killed"), *(() if finished(job) else failed)]
    if job.live or any(event.kind in TOLD_TO_END for event in job.events):
        return
    if not told and ended:
        spared = _spared(job)
        who = ranks_text(spared) if spared else "a rank"
        which = "why" if spared else "which one, and why"
        yield Finding(
            "child_failed_no_detail", "critical", 0.5,
            f"{who} failed, and only what its launcher did then was recorded: nothing tells {which}",
            ranks=spared,
            nodes=tuple(sorted({event.host for event in ended} - {""})), evidence=tuple(map(event_line, ended[:3])),
            advice="Look at the lines above, and at the output of the other nodes.",
        )  # fmt: skip
    if not told or (all(event.data.get("cut") is True for event in told) and said(job, "torch.store_timeout")):
        return  # frames without an exception, of a launcher that waited for the store
    if all(_in_rendezvous(event) for event in told):
        yield Finding(
            "store_timeout", "critical", 0.55,
            "the launcher failed in its rendezvous, which asks a store on one of the nodes",
            nodes=tuple(sorted({event.host for event in told} - {""})), evidence=tuple(map(event_line, told[:3])),
            advice="Look at the node of the rendezvous endpoint: did its agent end, and can this node reach it?",
        )  # fmt: skip
        return
    yield Finding(
        "child_failed_no_detail", "critical", 0.6,
        "a rank failed, and only its launcher's traceback was recorded",
        nodes=tuple(sorted({event.host for event in told} - {""})), evidence=tuple(map(event_line, told[:3])),
        advice="Look at the output of the ranks, above the launcher's: the cause stands there.",
    )  # fmt: skip


def _spared(job: Job) -> tuple[int, ...]:
    """Ranks that a launcher did not end, where it lists those that it ended: at most one in eight of them."""
    ended = {rank for event in said(job, "launcher.exit") for rank in numbers_of(event, "tasks")}
    spared = tuple(sorted(set(range(1 + max(ended, default=-1))) - ended))
    return spared if len(spared) * 8 <= len(ended) else ()


def _in_rendezvous(event: LogEvent) -> bool:
    """Whether its innermost frames are those of a rendezvous, or, of one that is cut, those of what led to it."""
    return (event.data.get("cut") is True and bool(_RENDEZVOUS.search(event.text))) or any(
        "/rendezvous" in frame for frame in words_of(event, "frames")[-3:]
    )
