"""A launcher's traceback where nothing of the ranks themselves was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import numbers_of, text_of, words_of
from hangtop.diagnosis.evidence.events import event_line, said
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text
from hangtop.diagnosis.verdict.aftermath import finished

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
