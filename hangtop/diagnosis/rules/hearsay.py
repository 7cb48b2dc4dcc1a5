"""How a run that is over ended, by words that no rule knows by name: the last resort, where nothing else speaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text, who
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.verdict.aftermath import finished
from hangtop.diagnosis.witnesses.beside import called
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.failures import VICTIM_SIGNALS, signal_name
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said, warned

ORDER = ("exception", "memory", "timeout", "stack", "exit", "level", "wait", "words")
"""What says most of why a program ended, first."""
KINDS = {
    "connection": "nccl_remote_error",
    "store": "store_timeout",
    "rendezvous": "store_timeout",
    "collective_timeout": "watchdog_timeout",
    "out_of_memory": "gpu_out_of_memory",
    "host_memory": "host_out_of_memory",
    "open_files": "open_files_limit",
    "processes": "process_limit",
    "shared_memory": "shm_too_small",
    "address_in_use": "address_in_use",
    "child_failed": "child_failed_no_detail",
}
"""Kinds for what the words mean; any other failure is a crash."""
LACKS = frozenset({"out_of_memory", "host_memory", "open_files", "processes", "shared_memory"})
"""What a process may have lacked before its peers lost it: an error that says so tells more than that they did."""
VICTIMS = frozenset({"nccl_remote_error"})
"""Findings by which nobody has said anything but that a peer was lost."""
_FAULT = re.compile(r"(?i)\b(?:fail(?:ed|ure|s)?|errors?|abort(?:ed|ing)?|invalid|fatal)\b")
"""Words of NCCL's warnings that tell of a failure; others warn of a setting or a slower way."""
_OPTIONAL = re.compile(
    r"(?i)\.so\b|libibverbs|libnccl|plugin|dlopen|topolog|affinity|environment|ignor|instead|fall(?:ing|s)? ?back"
    r"|retry|will be|not available|default"
)
"""Words of libraries and settings that NCCL does without."""
NEAR_END = 6
"""Lines behind NCCL's last warning after which the run went on."""
BESIDE = 2
"""Lines within which the word of an end and its code belong together."""
WEIGHTS = {
    "exception": 0.66,
    "memory": 0.6,
    "timeout": 0.6,
    "stack": 0.5,
    "exit": 0.55,
    "level": 0.4,
    "wait": 0.35,
    "words": 0.3,
}
ADVICE = {
    "exception": "Only its last words are here: look at the traceback in that rank's own output.",
    "memory": "Give the job more memory, or use less: a supervisor watches over it.",
    "timeout": "A time-out is a consequence: look at which rank did not come, in the logs of the others.",
    "stack": "Its message stands above the stack, or in that rank's own output.",
    "exit": "An exit code alone: the reason stands in that process's own output.",
    "wait": "A stack of one process: compare it with those of the other ranks, one of which is elsewhere.",
    "words": "The words stand at the end of what was read; whether the run ended of them is not told.",
    "level": "The last error that was logged; whether the run ended of it is not in what was read.",
}


def hearsay(job: Job, found: Sequence[Finding]) -> Iterator[Finding]:
    """The end of a run by an exception in a sentence, a time-out, a stack, an exit code or a logged error.

    Needs a log that is over, that does not say that the run came to its end, and in which the run did not go on
    afterwards. ``found`` are the findings of all other rules: where one of them is about the job, this says nothing,
    but of memory and the like that a process lacked whose peers have nothing to say but that they lost it.
    """
    told = {finding.kind for finding in found if finding.severity != "info" and word_of(finding.kind) != "none"}
    if job.live or told - VICTIMS or finished(job):
        return
    lost = {(event.source, event.line + 1) for event in said(job, "torch.store_lost")}
    events = [
        event
        for event in said(job, "log.error")
        if event.data.get("survived") is not True
        and _failed(event)
        and not (text_of(event, "told") == "stack" and (event.source, event.line) in lost)  # torch prints it below
        and (not told or _lacked(event))
    ]
    own = [event for event in events if event.data.get("consequence") is not True] or events
    if not own and not told:
        yield from _warned(job)
    if not own:
        return
    manner = min((text_of(event, "told") for event in own), key=ORDER.index)
    told_so = [event for event in own if text_of(event, "told") == manner]
    first = told_so[-1] if manner == "level" else _telling(told_so)
    what = _what(first)
    alike = [event for event in told_so if _what(event) == what or (manner == "exit" and _beside(event, first))]
    ranks = tuple(sorted({rank for event in alike if (rank := _rank(event)) is not None}))
    yield Finding(
        _kind(first, manner), "critical", WEIGHTS[manner],
        _summary(manner, who(ranks, called(alike)), ranks, what),
        ranks=() if manner == "timeout" else ranks, nodes=hosts_in(job, alike) or _one_host(job, told_so),
        evidence=lines(alike),
        advice=ADVICE[manner],
    )  # fmt: skip


def _lacked(event: LogEvent) -> bool:
    return text_of(event, "told") == "level" and text_of(event, "signature") in LACKS


def _one_host(job: Job, events: Sequence[LogEvent]) -> tuple[str, ...]:
    """The host that the other lines of an end name, where they name one."""
    hosts = hosts_in(job, events)
    return hosts if len(hosts) == 1 else ()


def _telling(events: Sequence[LogEvent]) -> LogEvent:
    """The first of them; one right behind it that tells a signal or a code, where it tells none."""
    first = events[0]
    more = [event for event in events if _beside(event, first)]
    coded = [event for event in more if signal_name(event) or number_of(event, "exitcode") is not None]
    return first if first in coded or not coded else coded[0]


def _beside(event: LogEvent, other: LogEvent) -> bool:
    """Whether two lines speak of one end: ``Rank 0 is dead.``, ``Exit code: -9``."""
    return event.source == other.source and 0 <= abs(event.line - other.line) <= BESIDE


def _warned(job: Job) -> Iterator[Finding]:
    """nccl_init_failed by a last warning of NCCL that no rule knows, in words of a failure or of a wait in vain."""
    unknown = [event for event in warned(job, "other", "init_timeout") if _is_fault(event)]
    complete = [event for event in said(job, "nccl.init") if text_of(event, "phase") == "complete"]
    ends = [event for event in said(job, "log.end") if unknown and event.source == unknown[-1].source]
    went_on = any(end.line - unknown[-1].line > NEAR_END for end in ends) or said(job, "nccl_tests.table")
    if not unknown or went_on or any(event.line > unknown[-1].line for event in complete) or job.progress:
        return
    ranks = ranks_in(unknown)
    yield Finding(
        "nccl_init_failed", "critical", 0.4, f"NCCL's last warning: {text_of(unknown[-1], 'message')[:200]}",
        ranks=ranks, nodes=hosts_in(job, unknown), evidence=lines(unknown),
        advice="Nothing else tells how the run ended: look at the lines behind it, and at NCCL_DEBUG=INFO.",
    )  # fmt: skip


def _is_fault(event: LogEvent) -> bool:
    message = text_of(event, "message")
    told = text_of(event, "signature") == "init_timeout" or _FAULT.search(message) is not None
    return told and not _OPTIONAL.search(message)


def _failed(event: LogEvent) -> bool:
    """Whether the words tell of a failure of one's own: a launcher's SIGTERM and Control-C are none."""
    return signal_name(event) not in VICTIM_SIGNALS and text_of(event, "signature") != "interrupt"


def _kind(event: LogEvent, manner: str) -> str:
    if manner == "timeout":
        return "watchdog_timeout"
    if manner == "wait":
        return "collective_stalled"
    if manner == "exit" and not signal_name(event):
        return "child_failed_no_detail"
    if manner == "exit":
        return "rank_killed" if signal_name(event) == "KILL" else "rank_crashed"
    return KINDS.get(text_of(event, "signature"), "rank_crashed")


def _rank(event: LogEvent) -> int | None:
    return event.rank if event.rank is not None else number_of(event, "about")


def _summary(manner: str, who: str, ranks: Sequence[int], what: str) -> str:
    if manner == "timeout":
        return f"a collective timed out{_on(ranks)}: {what}"
    if manner == "wait":
        return f"a process stands still{_on(ranks)}: {what}"
    if manner == "words":
        return f"the output{_on(ranks)} ends with: {what}"
    return f"{who} ended: {what}"


def _on(ranks: Sequence[int]) -> str:
    return f" on {ranks_text(ranks)}" if ranks else ""


def _what(event: LogEvent) -> str:
    """``ValueError: bad shard``, ``exit code 3``, ``signal SEGV``, or the line's own words."""
    name, message = text_of(event, "type"), text_of(event, "message").splitlines()
    if name or message:
        return ": ".join(part for part in (name, message[0][:240] if message else "") if part)
    if signal_name(event):
        return f"signal {signal_name(event)}"
    code = number_of(event, "exitcode")
    return f"exit code {code}" if code is not None else event.text.strip().splitlines()[0][:240]
