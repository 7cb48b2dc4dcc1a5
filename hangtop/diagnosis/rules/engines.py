"""Inference engines whose workers do not answer: vLLM's and SGLang's own words."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import duration, folded, listed, ranks_text
from hangtop.diagnosis.verdict.aftermath import finished
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

OFTEN = 3
"""Lines of a minute each: compiling and quantizing take one or two."""
LOOK = "Dump the stacks of all workers while it hangs (py-spy dump): the odd one is to blame."


def timed_out(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by an engine: a call to its workers, or the watchdog over its scheduler, gave up.

    Needs the engine's words. They do not tell which worker kept the others.
    """
    events = said(job, "engine.timeout")
    if not events:
        return
    first = events[0]
    seconds = number_of(first, "seconds")
    workers = sorted({worker for event in events if (worker := number_of(event, "worker")) is not None})
    on = f" on tensor-parallel workers {folded(workers)}" if workers else ""
    yield Finding(
        "watchdog_timeout", "critical", 0.6,
        f"the engine's {text_of(first, 'call')} got no answer{on}{f' for {duration(seconds)}' if seconds else ''}: "
        "nothing tells which worker hangs",
        nodes=hosts_in(job, events), evidence=lines(events), advice=LOOK,
    )  # fmt: skip


def waiting(job: Job) -> Iterator[Finding]:
    """collective_stalled by vLLM: its workers have not taken what was broadcast to them for minutes.

    Needs its lines, three or more; fewer are compilation, unless the engine then wrote down the step that failed.
    """
    events, dumped = said(job, "engine.waiting"), said(job, "engine.dumped")
    enough = len(events) >= OFTEN or (events and dumped)
    if enough and not said(job, "engine.timeout"):
        long = duration(max(number_of(event, "seconds") or 0 for event in events) * min(OFTEN, len(events)))
        yield Finding(
            "collective_stalled", "critical", 0.6, f"workers of the engine have taken nothing for {long} or more",
            nodes=hosts_in(job, events), evidence=lines(events), advice=LOOK,
        )  # fmt: skip


def unheard(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by nvidia-resiliency-ext: ranks told their monitors nothing for so long that it ended them.

    Needs the monitors' words, of a job that is over and did not go on. Whoever hangs keeps the others, too: the first
    that were not heard are named, and not blamed.
    """
    events = said(job, "monitor.silent")
    if not events or job.live or finished(job):
        return
    ranks, nodes = ranks_in(events), hosts_in(job, events)
    yield Finding(
        "watchdog_timeout", "critical", 0.7,
        f"the monitor of {ranks_text(ranks)}{f' on {listed(nodes)}' if nodes else ''} got no heartbeat for "
        f"{duration(number_of(events[0], 'seconds') or 0)}, and the job was ended",
        ranks=ranks, nodes=nodes, evidence=lines(events), advice=LOOK,
    )  # fmt: skip
