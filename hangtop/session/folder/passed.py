"""What a log tells of a fault that the run outlived: it goes on for long afterwards, counts steps, or comes to its end.

Such words are no fault of what was read: no rule sees them (``Job.passed`` holds them for people). Only words of
nobody in particular, or of the one process that writes the log, may pass: in a log of many ranks others go on for a
while when one has failed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from collectors.node.logs import counters, times
from collectors.node.logs.names import Hints
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent
from hangtop.session.folder import beginnings
from hangtop.session.folder.again import LAUNCHERS, UNCAUGHT, of_earlier_runs, raised_again

TAIL = 64 * 1024
"""Bytes at the end of a log in which steps are looked for."""
RECORDS, STEPS = 200, 5
"""Lines (or states of a progress bar) and different steps behind a fault that show that the run went on. What a
process had buffered comes out behind its traceback: some kilobytes, of the steps before it."""
LONG, FEW = 16 * 1024, 3
"""Bytes behind a fault that are more than what was buffered: fewer steps will do then, bare fractions among them."""
EPOCH = 1e9
"""By how much a step of a later epoch is later than any of the one before."""
ENDING = 40
"""Lines between a fault and the word that training is complete: less may be what another process was about to say."""
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
_TEARDOWN = re.compile(
    r"handle is closed|closed (?:file|handle|pool|pipe)|after (?:interpreter )?shutdown"
    r"|^(?:EOFError|BrokenPipeError|Connection\w+)\b"
)
"""What threads of libraries raise when the interpreter takes their queues and files away: at the end of a run. Then
workers that load data are ended, too.
"""
WROTE_ON_S, WROTE_ON_LATER_S = 30.0, 60.0
"""Seconds for which a log goes on behind an error, or an exception, that was logged."""
MANY, CLOSE, WROTE_ON_LONG_S = 20, 12, 600.0
"""Lines, and seconds between the first few and the last, behind an exception that nobody logged."""
_MAY_BE_LOGGED = ("log.error", "python.exception", "torch.address_in_use")
_SHELL = re.compile(r": line \d{1,6}: {1,8}\d{1,9} ")
"""``job.sh: line 105: 4711 Killed``: a script that goes on may have its reasons."""
_ENDINGS = ("job.finished", "elastic.finished")


def passed(events: Sequence[LogEvent], parser: LogParser, hints: Hints, now: float, head: bytes = b"") -> list[bool]:
    """Of each event of one log whether the run outlived it, or an earlier one told it.

    ``now`` gives the year to times without one, ``head`` is how the log begins.
    """
    events = [event._replace(line=parser.last_said(event)) for event in events]
    wanted = [event.kind.startswith(_FAULTS) for event in events]
    if not any(wanted):
        return wanted
    after = _After(parser, now)
    anew = max((e.line for e in events if e.kind == "elastic.restart" and after.went_on(e)), default=0)
    anew = max(anew, _ended_before(events)) if hints.local_rank is not None else anew
    anew = max((event.line for event in events if event.kind == "job.submitted"), default=anew)
    anew = max(anew, beginnings.reported(events, parser.line))
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
            or (mine and again is not None and _before(event, again, alone))
            or (mine and (after.went_on(event) or (event.line > launched and after.began_anew(event))))
            or (alone and mine and _signalled(event) and after.is_long(event))
        )
        for event, fault, mine in zip(events, wanted, own, strict=True)
    ]
    if not any(fault and event.line >= ended for event, fault in zip(events, wanted, strict=True)):
        over = [
            done or (mine and ended - _last_line(event) > ENDING)
            for event, done, mine in zip(events, over, own, strict=True)
        ]
    early = of_earlier_runs(events, over)
    over = [done or (fault and before) for done, fault, before in zip(over, wanted, early, strict=True)]
    over = [done or (ended > 0 and _torn_down(event)) for event, done in zip(events, over, strict=True)]
    gone = {(event.kind, event.line) for event, done in zip(events, over, strict=True) if done}
    over = [
        done
        or (("python.exception", event.line) in gone and event.data.get("raised") is True)
        or (("elastic.failure", event.line) in gone and event.kind == "python.exception")  # what its report quotes
        for event, done in zip(events, over, strict=True)
    ]
    over = [done or caught for done, caught in zip(over, raised_again(events), strict=True)]
    return _with_logged(events, over, wanted, own, after)


def _ended_before(events: Sequence[LogEvent]) -> int:
    """The line of the exception by which the last but one run in one process's file ended; 0 where there was one run.

    What is raised through the outermost frame of a program ends it: when the same program raises once more, it had
    been started anew. A child's exception has another outermost frame.
    """
    ends = [
        (event.line, match.group("program"))
        for event in events
        if event.kind == "python.exception" and "logged" not in event.data and (match := UNCAUGHT.match(event.text))
    ]
    return max((line for line, program in ends[:-1] if program == ends[-1][1]), default=0)


def _before(event: LogEvent, again: beginnings.Beginning, alone: bool) -> bool:
    """Whether it was told before the last beginning: of one process's file, or so long before that all had begun."""
    if event.line >= again.line:
        return False
    after = event.data.get("after")
    return alone or again.is_later(event.at if event.at is not None else after if isinstance(after, float) else None)


def _signalled(event: LogEvent) -> bool:
    return event.kind.startswith("process.") or event.data.get("consequence") is True


def _torn_down(event: LogEvent) -> bool:
    said = f"{event.data.get('type')}: {event.data.get('message')}"
    lost = event.kind == "torch.worker_died" or event.data.get("signature") == "worker_died"
    return lost or (event.kind == "python.exception" and _TEARDOWN.search(said) is not None)


def _with_logged(
    events: Sequence[LogEvent], over: Sequence[bool], wanted: Sequence[bool], own: Sequence[bool], after: _After
) -> list[bool]:
    """And of errors that somebody logged, so that he was there to do it: he wrote on, and nothing failed later."""
    found = list(over)
    for place in sorted(range(len(events)), key=lambda place: events[place].line, reverse=True):
        if not wanted[place] or found[place]:
            continue
        found[place] = own[place] and after.wrote_on(events[place])
        if not found[place]:
            break
    return found


def _own(event: LogEvent, hints: Hints) -> bool:
    """Whether it speaks for whoever writes the log."""
    return event.rank is None or event.rank == hints.rank


def _last_line(event: LogEvent) -> int:
    return event.line + event.text.rstrip("\n").count("\n")


def _anchor(event: LogEvent) -> str:
    """The line of its text to look for: its last one, of an exception the one that tells the type.

    Behind that other lines of the log may have been taken for the message.
    """
    told = [line.strip() for line in event.text.rstrip().split("\n")]
    name = event.data.get("type")
    typed = [line for line in told if isinstance(name, str) and name and name in line]
    return typed[-1] if typed else told[-1]


class _After:
    """What stands in the end of a log behind its events."""

    def __init__(self, parser: LogParser, now: float) -> None:
        self._tail = parser.tail
        self._last, self._now = parser.last_time(), now
        self._first = parser.line - self._tail.count(b"\n")
        self._ends: list[int] = []
        self._steps: list[tuple[int, str, float, bool]] = []
        at = 0
        for line in self._tail.split(b"\n"):
            self._ends.append(at)
            text = counters.plain(line)
            seen = None if counters.is_trouble(text) else counters.counted(text)
            if seen is not None:
                self._steps.append((at, seen.template, seen.epoch * EPOCH + seen.value, seen.kind != counters.BARE))
            at += len(line) + 1

    def _where(self, event: LogEvent) -> int | None:
        """Where in the end it stands; -1: before it; None: cut, or put in other words, so that it is not known."""
        if event.kind == "elastic.failure" and 0 < _last_line(event) < self._first:
            return -1  # its text is cut: words like the last ones may stand in the end
        words = _anchor(event).encode("utf-8", "replace")
        found = self._tail.rfind(words) if words else -1
        return None if found < 0 and _last_line(event) >= self._first else found

    def wrote_on(self, event: LogEvent) -> bool:
        """Whether whoever it befell wrote on for long, lines that tell of neither trouble nor waiting.

        An error that was logged shows that its process was there to log it; an exception that nobody logged, and a port
        that was taken, end a process as a rule, so that far more must follow, and much later. Where steps were counted
        up to an exception and none behind it, training ended there, whatever a tracker or a server writes on.
        """
        found = self._where(event)
        of_a_shell = event.kind == "process.signal" and _SHELL.search(event.text) is not None
        if found is None or not (of_a_shell or event.kind.startswith(_MAY_BE_LOGGED)):
            return False
        behind = self._tail[max(found, 0) :].split(b"\n")[1:]
        rows = [row for row in map(counters.plain, behind) if row.strip()]
        calm = sum(not (counters.is_trouble(row) or counters.is_beat(row)) for row in rows)
        if event.kind == "torch.address_in_use":
            return calm > ENDING
        if event.kind == "python.exception" and self._stopped_counting(found):
            return False
        first, last = event.at, self._last
        if of_a_shell or (event.kind == "python.exception" and event.data.get("logged") is not True):
            first = times.last("\n".join(rows[:CLOSE]), self._now)
            return calm >= MANY and first is not None and last is not None and last - first > WROTE_ON_LONG_S
        least = WROTE_ON_S if event.kind == "log.error" else WROTE_ON_LATER_S
        return calm > 0 and first is not None and last is not None and last - first >= least

    def is_long(self, event: LogEvent) -> bool:
        """Whether so many lines stand behind it that another process wrote them: it was told of its own by this one."""
        found = self._where(event)
        return found is not None and self._tail.count(b"\n", max(found, 0)) > ENDING

    def began_anew(self, event: LogEvent) -> bool:
        """Whether steps behind it are counted from their beginning again: another run by hand in the same file.

        What a process had buffered goes on where it was; nothing that was counted before may do so.
        """
        found = self._where(event)
        if found is None or found < 0:
            return False
        place = bisect_left(self._steps, (found, "", 0.0, False))
        before = _by_words(self._steps[:place])
        behind = _by_words(self._steps[place:])
        both = [words for words in behind if words in before]
        if any(behind[words][0] > before[words][-1] for words in both):
            return False
        return any(
            len(set(behind[words])) >= STEPS
            and behind[words][0] <= min(before[words])
            and _from_the_start(behind[words])
            for words in both
        )

    def _stopped_counting(self, at: int) -> bool:
        """Whether several steps stand in front of this place, and none behind it."""
        before = {step[1:] for step in self._steps[: bisect_left(self._steps, (at, "", 0.0, False))]}
        return sum(named for _, _, named in before) >= STEPS and self._steps[-1][0] < at

    def went_on(self, event: LogEvent) -> bool:
        """Whether so many lines, and steps that count on among them, stand behind it."""
        found = self._where(event)
        if found is None:
            return False
        at = max(found, 0)
        if found >= 0 and len(self._ends) - bisect_left(self._ends, at) <= RECORDS:
            return False
        steps = {step[1:] for step in self._steps[bisect_left(self._steps, (at, "", 0.0, False)) :]}
        return sum(named for _, _, named in steps) >= STEPS or (len(self._tail) - at > LONG and len(steps) >= FEW)


def _by_words(steps: Sequence[tuple[int, str, float, bool]]) -> dict[str, list[float]]:
    """Steps that are named as such, in order, by the words in front of their numbers."""
    found: dict[str, list[float]] = {}
    for _, words, number, named in steps:
        if named:
            found.setdefault(words, []).append(number)
    return found


def _from_the_start(numbers: Sequence[float]) -> bool:
    """Whether they begin at nought, at one, or at as much as they grow by, in the first epoch that there is."""
    epoch, first = divmod(numbers[0], EPOCH)
    grows = next((number - numbers[0] for number in numbers if number > numbers[0]), 0.0)
    return epoch <= 1 and first <= max(1.0, grows)
