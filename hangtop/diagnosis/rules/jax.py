"""What JAX's coordination service knows: who did not come to a barrier, whose heartbeats stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.witnesses.event_fields import number_of, numbers_of, text_of
from hangtop.diagnosis.witnesses.failures import by_rank, failures
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

HANGS = {
    "data": "rank_stuck_in_data",
    "inconsistent": "collective_mismatch",
    "different": "collective_mismatch",
    "chip": "collective_stalled",
    "network": "collective_stalled",
}
"""Words of the likely causes of Megascale's digest, and the kinds of finding."""
_HOST = re.compile(r"[A-Za-z0-9][\w.-]{1,120}")
LATELY = 5
"""Lines behind a warning, some of its own, from which on the start was only slow."""
CONNECT = ("PjRT_Client_Connect", "RegisterTask", "CoordinationServiceConnect")
"""Barriers by which tasks come together."""


def barrier(job: Job) -> Iterator[Finding]:
    """store_timeout at the barrier by which tasks come together, watchdog_timeout at any later one.

    Needs the service's list of tasks that did not come. A task is a process, numbered as JAX numbers them.
    """
    events = said(job, "jax.barrier")
    if not events:
        return
    first = events[0]
    name = text_of(first, "barrier")
    missing = tuple(sorted({task for event in events for task in numbers_of(event, "missing")}))
    joined, expected = number_of(first, "joined"), number_of(first, "expected")
    came = f"; {joined} of {expected} came" if joined is not None and expected else ""
    absent = f"{ranks_text(missing)} did not come" if missing else "it does not say who did not come"
    together = name.startswith(CONNECT)
    yield Finding(
        "store_timeout" if together else "watchdog_timeout", "critical", 0.85 if missing else 0.6,
        f"JAX's barrier {name} timed out: {absent}{came}",
        ranks=missing, nodes=homes(job, missing) or hosts_in(job, events), evidence=lines(events),
        advice="Look at those processes: did they start, and can they reach the coordinator?" if together else
        "The time-out is a consequence: look at what kept those processes (their last log lines, their stacks).",
    )  # fmt: skip


def lost(job: Job) -> Iterator[Finding]:
    """rank_killed by JAX's coordination service: a task whose heartbeats stopped, or that came back anew.

    Needs the service's words. A task that tells of its own end is not reported here.
    """
    events = said(job, "jax.lost")
    told = {rank for rank, words in by_rank(failures(job)).items() if any(not word.consequence for word in words)}
    ranks = tuple(sorted({task for event in events for task in numbers_of(event, "tasks")} - told))
    if not ranks:
        return
    anew = all(text_of(event, "how") == "restarted" for event in events)
    yield Finding(
        "rank_killed", "critical", 0.75,
        f"{ranks_text(ranks)} {'was started anew' if anew else 'stopped sending heartbeats'}: "
        "its process died, was pre-empted, or its node cannot be reached",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines(events),
        advice="Look at that process's own log and at its node: an out-of-memory kill, a pre-emption, a lost network.",
    )  # fmt: skip


def no_coordinator(job: Job) -> Iterator[Finding]:
    """store_timeout by JAX: the coordinator, served by process 0, could not be reached, or not all came to it in time.

    Needs the client's error.
    """
    events = said(job, "jax.no_coordinator")
    if not events or said(job, "jax.barrier") or said(job, "jax.lost"):
        return
    address = next((text for event in events if (text := text_of(event, "address"))), "")
    port = next((number for event in events if (number := number_of(event, "port"))), None)
    at = f" at {address}{f':{port}' if port else ''}" if address else ""
    registering = any(text_of(event, "phase") == "register" for event in events)
    gave_up = f"{who(ranks_in(events), 'a process')} gave up at the start: JAX's coordinator did not answer"
    yield Finding(
        "store_timeout", "critical", 0.7,
        f"{gave_up}{at}, or not all processes came to it" if registering
        else f"{who(ranks_in(events))} did not reach JAX's coordinator{at}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="Does process 0 run, can its address and port be reached from every node"
        f"{', and did every process start, with the same number of processes' if registering else ''}?",
    )  # fmt: skip


def waiting(job: Job) -> Iterator[Finding]:
    """collective_stalled by XLA: threads wait for others at one rendezvous, and no line says that they came after all.

    Needs XLA's lines. They are taken back by lines of their own where somebody was only slow: of a running job the
    time-out alone counts.
    """
    events, unstuck = said(job, "jax.waiting"), said(job, "jax.unstuck")
    ended = tuple(event for event in events if event.data.get("ended") is True)
    if not events or ((unstuck or job.live) and not ended):
        return
    first = (ended or events)[0]
    yield Finding(
        "collective_stalled", "critical", 0.6 if ended else 0.5,
        f"XLA's threads wait for others that do not come: {text_of(first, 'what')}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="One device or process is missing or runs another program: look at the other processes' logs.",
    )  # fmt: skip
