"""What a log tells of a fault that the run outlived: it goes on for long afterwards, counts steps, or comes to its end.

Such words are no fault of what was read: no rule sees them (``Job.passed`` holds them for people). Only words of
nobody in particular, or of the one process that writes the log, may pass: in a log of many ranks others go on for a
while when one has failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from collectors.node.logs.lines.names import Hints
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent
from hangtop.session.folder import beginnings, reruns, tested
from hangtop.session.folder.after import ENDING, After, after, last_line
from hangtop.session.folder.again import LAUNCHERS, UNCAUGHT, of_earlier_runs, raised_again

TAIL = 64 * 1024
"""Bytes at the end of a log in which steps are looked for."""
_FAULTS = (
    "python.", "process.", "log.error", "host.", "gloo.", "fabric.", "horovod.", "engine.", "elastic.fail",
    "elastic.rendezvous", "elastic.signal", "elastic.restart", "elastic.closing", "elastic.unkillable",
    "launcher.exit", "launcher.killed", "launcher.refused", "launcher.lost_node", "launcher.pending",
    "slurm.out_of_memory", "jax.", "hccl.timeout", "hccl.connect_timeout", "hccl.lost", "hccl.error", "peer.",
    "nccl_tests.failed", "torch.out_of_memory", "torch.worker_died", "torch.cuda_error", "torch.watchdog_",
    "torch.store_timeout", "torch.store_lost", "torch.store_retry", "torch.barrier_failed", "torch.desync",
    "torch.fingerprint", "torch.unused_parameters", "torch.marked_twice", "torch.taken_down", "torch.dump_signal",
    "torch.failed_collective", "torch.gil", "torch.address_in_use", "torch.unresolved",
)  # fmt: skip
"""Kinds that tell of something that fails or waits. Those of kernels and settings stay true whatever follows."""
_LOST = ("gloo.closed", "horovod.victim", "peer.lost")
"""Connections that one rank lost: where the others count on and come to their end, they went on without it."""
_TEARDOWN = re.compile(
    r"handle is closed|closed (?:file|handle|pool|pipe)|after (?:interpreter )?shutdown"
    r"|^(?:EOFError|BrokenPipeError|Connection\w+)\b"
)
"""What threads of libraries raise when the interpreter takes their queues and files away: at the end of a run. Then
workers that load data are ended, too.
"""
_RECEIVED = re.compile(r"\*\*\* SIG[A-Z]{3,4} \(@0x[0-9a-f]{1,16}\) received by PID (?P<pid>\d{1,10}) ")
"""glog's last word of a process."""
_ENDINGS = ("job.finished", "elastic.finished")


def passed(events: Sequence[LogEvent], parser: LogParser, hints: Hints, now: float, head: bytes = b"") -> list[bool]:
    """Of each event of one log whether the run outlived it, or an earlier one told it.

    ``now`` gives the year to times without one, ``head`` is how the log begins.
    """
    events = [event._replace(line=parser.last_said(event)) for event in events]
    wanted = [event.kind.startswith(_FAULTS) for event in events]
    before = beginnings.reported(events, parser.line)
    ended_lsf = [_of_lsf(event) and event.line <= before for event in events]
    if not any(wanted):
        return ended_lsf
    behind = after(parser, now)
    anew = max((e.line for e in events if e.kind == "elastic.restart" and behind.went_on(e)), default=0)
    anew = max(anew, _ended_before(events)) if hints.local_rank is not None else anew
    anew = max((event.line for event in events if event.kind == "job.submitted"), default=anew)
    anew = max(anew, reruns.before_an_interrupt(events), reruns.before_it_compiled(events))
    anew = max(anew, before)
    by_hand = reruns.begun(events, head, parser)
    placed = max((event.line for event in events if event.kind == "launcher.placed"), default=0)
    launched = max((e.line for e in events if e.kind.startswith(LAUNCHERS)), default=0)
    ended = max((event.line for event in events if event.kind in _ENDINGS), default=0)
    own = [fault and _own(event, hints) for event, fault in zip(events, wanted, strict=True)]
    alone = hints.rank is not None or hints.local_rank is not None
    again = beginnings.last(head, parser, now)
    if again is not None and again.line <= launched and not alone:
        again = None  # what a launcher says behind it may be about those before
    over = [
        fault
        and (
            event.line <= anew
            or event.line < by_hand
            or (event.kind == "launcher.pending" and event.line < placed)
            or behind.is_handled(event)
            or (event.kind.startswith(_LOST) and ended - last_line(event) > ENDING and behind.went_on(event))
            or (mine and again is not None and _before(event, again, alone))
            or (mine and _outlived(event, behind.of(event), launched))
            or (alone and mine and _signalled(event) and behind.is_long(event))
            or (mine and _one_liner(event) and behind.is_long(event))
        )
        for event, fault, mine in zip(events, wanted, own, strict=True)
    ]
    if not any(fault and event.line >= ended for event, fault in zip(events, wanted, strict=True)):
        over = [
            done or (mine and ended - last_line(event) > ENDING)
            for event, done, mine in zip(events, over, own, strict=True)
        ]
    early = of_earlier_runs(events, over)
    over = [done or (fault and before) for done, fault, before in zip(over, wanted, early, strict=True)]
    over = [
        done or (ended > 0 and _torn_down(event)) or (0 < ended < event.line and "thread" in event.data)
        for event, done in zip(events, over, strict=True)
    ]
    green = tested.sessions(head, parser)
    over = [
        done or (fault and any(begun <= event.line < end for begun, end in green))
        for event, done, fault in zip(events, over, wanted, strict=True)
    ]
    gone = {(event.kind, event.line) for event, done in zip(events, over, strict=True) if done}
    over = [
        done
        or lsf
        or (("python.exception", event.line) in gone and event.data.get("raised") is True)
        or (("elastic.failure", event.line) in gone and event.kind == "python.exception")  # what its report quotes
        for event, done, lsf in zip(events, over, ended_lsf, strict=True)
    ]
    over = [done or caught for done, caught in zip(over, raised_again(events), strict=True)]
    return _with_logged(events, over, wanted, own, behind)


def _of_lsf(event: LogEvent) -> bool:
    """Whether LSF tells that it ended a job: of one before, where its report on a later one stands in the same file."""
    return event.kind == "slurm.cancelled" and event.data.get("launcher") == "lsf"


def _outlived(event: LogEvent, behind: After, launched: int) -> bool:
    """Whether the run went on, or another one was begun behind it that no launcher speaks of."""
    return behind.went_on(event) or (event.line > launched and behind.began_anew(event))


def _ended_before(events: Sequence[LogEvent]) -> int:
    """The line of the exception by which the last but one run in one process's file ended; 0 where there was one run.

    What is raised through the outermost frame of a program ends it: when the same program raises once more, it had
    been started anew. A child's exception has another outermost frame. And a process that glog saw a signal end is
    another than one that a signal ended later.
    """
    ends = [
        (event.line, match.group("program"))
        for event in events
        if event.kind == "python.exception" and "logged" not in event.data and (match := UNCAUGHT.match(event.text))
    ]
    signalled = [(event.line, match.group("pid")) for event in events if (match := _RECEIVED.search(event.text))]
    before = [line for line, program in ends[:-1] if program == ends[-1][1]]
    return max([*before, *(line for line, pid in signalled if pid != signalled[-1][1])], default=0)


def _before(event: LogEvent, again: beginnings.Beginning, alone: bool) -> bool:
    """Whether it was told before the last beginning: of one process's file, or so long before that all had begun."""
    if event.line >= again.line:
        return False
    after = event.data.get("after")
    return alone or again.is_later(event.at if event.at is not None else after if isinstance(after, float) else None)


def _signalled(event: LogEvent) -> bool:
    return event.kind.startswith("process.") or event.data.get("consequence") is True


def _one_liner(event: LogEvent) -> bool:
    """Whether it was raised in a ``python -c`` of a line: by which a build or a script asks what is there."""
    return event.kind == "python.exception" and str(event.data.get("frame", "")).startswith("<string>:")


def _torn_down(event: LogEvent) -> bool:
    said = f"{event.data.get('type')}: {event.data.get('message')}"
    lost = event.kind == "torch.worker_died" or event.data.get("signature") == "worker_died"
    return lost or (event.kind == "python.exception" and _TEARDOWN.search(said) is not None)


def _with_logged(
    events: Sequence[LogEvent], over: Sequence[bool], wanted: Sequence[bool], own: Sequence[bool], behind: After
) -> list[bool]:
    """And of errors that somebody logged, so that he was there to do it: he wrote on, and nothing failed later."""
    found = list(over)
    for place in sorted(range(len(events)), key=lambda place: events[place].line, reverse=True):
        if not wanted[place] or found[place]:
            continue
        found[place] = own[place] and behind.of(events[place]).wrote_on(events[place])
        if not found[place]:
            break
    return found


def _own(event: LogEvent, hints: Hints) -> bool:
    """Whether it speaks for whoever writes the log."""
    return event.rank is None or event.rank == hints.rank
