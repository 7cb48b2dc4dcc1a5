"""What in a log is no fault of what was read: ``Job.passed`` holds it for people.

Two things show it: a later run stands behind it in the same file, and training steps are counted on behind it (or the
run's end is told). Only faults of nobody in particular, or of the process that writes the log, can be outlived: in a
log of many ranks the others go on for a while when one has failed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from collectors.node.logs import counters, times
from collectors.node.logs.file_names import Hints
from collectors.node.logs.prefixes import records
from collectors.samples.logs import LogEvent

TAIL = 64 * 1024
"""Bytes at the end of a log in which steps, and a run's beginning, are looked for."""
LINES, STEPS = 200, 5
"""Lines (or states of a progress bar) and different steps behind a fault that show that the run went on. What a process
had buffered comes out behind its traceback: some kilobytes, of the steps before it."""
ENDING = 40
"""Lines between a fault and the word that training is complete: less may be what another process was about to say."""
LAUNCHERS = ("elastic.", "launcher.")
"""What launchers say: steps behind it may be those of the other ranks."""
TRUE_FOREVER = ("kernel.", "nccl.", "job.", "log.end", "elastic.finished", "torch.program_exit", "nccl_tests.table")
"""What kernels, NCCL and settings say stays true whatever follows; all else tells of something that fails or waits."""
RUN_ENDS = (
    "elastic.failure", "elastic.finished", "elastic.signal", "launcher.exit", "slurm.cancelled", "job.finished",
)  # fmt: skip
"""Events with which a run as a whole ends; what begins behind one is the next run."""
REPORT = 60
"""Lines between two entries of one report, at most."""
EPOCH = 1e9
"""By how much a step of a later epoch is later than any of the one before."""
OPENING, LETTERS, OPENING_LONG = 3, 40, 400
"""Lines with which a log begins, letters in them and characters of each: where they stand again a run began."""
LATER_S = 60.0
"""Seconds after which ranks of one job that write the same file have all begun."""
_DIGITS = re.compile(r"\d+")
_TROUBLE = re.compile(r"(?i)traceback|^\s*file \"|error|exception|fail|abort|fatal|kill|signal|critical")


def last_line(event: LogEvent) -> int:
    """The number of the last line of its record, of which its text may have left out some."""
    lines = event.data.get("record_lines")
    return event.line + (lines - 1 if isinstance(lines, int) else event.text.rstrip("\n").count("\n"))


def last_run(events: Sequence[LogEvent], hints: Hints, head: bytes, end: LogEnd) -> int:
    """The line at which the last of several runs in one log begins; 0 where there is one alone.

    ``head`` is how the log begins.
    """
    alone = hints.rank is not None or hints.local_rank is not None
    launched = max((event.line for event in events if event.kind.startswith(LAUNCHERS)), default=0)
    begun, ended = 0, False
    single = not launched and all(event.rank in (None, hints.rank) for event in events)
    for event in events:
        if event.kind == "job.started":
            begun, ended = (event.line, False) if ended else (begun, ended)
        else:
            ended = ended or _ends_run(event, single=single)
    restarts = [event for event in events if event.kind == "elastic.restart"]
    anew = [event.line + 1 for event in restarts if end.steps_behind(event, anew=True)]
    again = end.opens_again(head, alone=alone)
    # what a launcher says behind the first lines may be about the ranks before, unless one process writes the log
    return max([begun, *anew, _reported_before(events), again if alone or launched < again else 0])


def _reported_before(events: Sequence[LogEvent]) -> int:
    """The line behind the last report of torchrun's that is not the last one of its host: of other processes."""
    reports: dict[str, list[tuple[int, set[object]]]] = {}
    for event in events:
        if event.kind == "elastic.failure":
            told = reports.setdefault(event.host, [])
            pid = event.data.get("failed_pid")
            if not told or (event.line - told[-1][0] > REPORT and pid not in told[-1][1]):
                told.append((event.line, set()))
            told[-1] = (event.line, told[-1][1] | {pid})
    return max((told[-2][0] + 1 for told in reports.values() if len(told) > 1), default=0)


def _ends_run(event: LogEvent, *, single: bool) -> bool:
    """Whether a run as a whole ended here: a launcher, the scheduler or the run says so; of one process any fault."""
    if event.kind in RUN_ENDS or event.data.get("launcher") is True:
        return True
    return single and not event.kind.startswith(TRUE_FOREVER) and "logged" not in event.data


def outlived(events: Sequence[LogEvent], hints: Hints, end: LogEnd, last_said: Callable[[LogEvent], int]) -> list[bool]:
    """Of each event of one run whether the run outlived it; ``last_said`` tells where the same was said last."""
    events = [event._replace(line=last_said(event)) for event in events]
    launched = max((event.line for event in events if event.kind.startswith(LAUNCHERS)), default=0)
    ended = max((event.line for event in events if event.kind in ("job.finished", "elastic.finished")), default=0)
    return [
        not event.kind.startswith(TRUE_FOREVER)
        and event.rank in (None, hints.rank)
        and (end.steps_behind(event, anew=event.line > launched) or ended - last_line(event) > ENDING)
        for event in events
    ]


class LogEnd:
    """The last :data:`TAIL` bytes of a log, and how many lines it has.

    ``now`` gives the year to times without one.
    """

    def __init__(self, tail: bytes, lines: int, now: float) -> None:
        self._tail, self._end, self._now = tail.replace(b"\r\n", b"\n"), lines, now
        self._first = lines - tail.count(b"\n")
        self._ends: list[int] = []
        self._steps: list[tuple[int, str, float]] = []
        """Where a step is counted, the words in front of its number, and the number."""
        at = 0
        for line in self._tail.replace(b"\r", b"\n").split(b"\n"):
            self._ends.append(at)
            text = counters.plain(line)
            seen = None if counters.is_trouble(text) else counters.counted(text)
            if seen is not None and seen.kind != counters.BARE:
                self._steps.append((at, seen.template, seen.epoch * EPOCH + seen.value))
            at += len(line) + 1

    def steps_behind(self, event: LogEvent, *, anew: bool) -> bool:
        """Whether steps are counted on behind an event, or, where that may be, from their beginning anew."""
        at = self._place(event)
        if at is None:
            return False
        first = bisect_left(self._steps, (max(at, 0), "", 0.0))
        own = self._steps[first:]
        if event.host:  # what other hosts write behind it into the same log is not its own
            own = [step for step in own if self._host(step[0]) in ("", event.host)]
        behind = _by_words(own)
        if event.kind == "log.error" or event.data.get("logged") is True:
            return bool(behind)  # somebody was there to log it
        most = max((len(set(numbers)) for numbers in behind.values()), default=0)
        if most < STEPS:
            return False
        if at < 0 or len(self._ends) - bisect_left(self._ends, at) > LINES:
            return True
        # buffered lines go on where they were: fewer lines count where all begins again
        before = _by_words(self._steps[:first])
        return anew and any(numbers[0] <= min(before[words]) for words, numbers in behind.items() if words in before)

    def _host(self, at: int) -> str:
        """The host that stands in front of a line."""
        record = next(records(self._tail[at:].partition(b"\n")[0], 0, self._now), None)
        return "" if record is None else record.stream.host

    def _place(self, event: LogEvent) -> int | None:
        """Where an event stands in the tail; -1 in front of it; None where that is not known."""
        if 0 < last_line(event) < self._first:
            return -1
        told = [line.strip() for line in event.text.rstrip().split("\n")]
        name = event.data.get("type")
        typed = [line for line in told if isinstance(name, str) and name and name in line]
        words = (typed or told)[-1].encode("utf-8", "replace")
        found = self._tail.rfind(words) if words else -1
        return None if found < 0 and last_line(event) >= self._first else found

    def opens_again(self, head: bytes, *, alone: bool) -> int:
        """The line at which the log's first lines stand once more, the last time; 0 where they do not.

        Unless one process writes the log ``alone``, the times in it must show that a run began, not another rank.
        """
        opening = [row for _, row in _rows(head[: 12 * OPENING_LONG])[:OPENING]]
        letters = sum(map(str.isalpha, "".join(opening)))
        if len(set(opening)) < OPENING or any(map(_TROUBLE.search, opening)) or letters < LETTERS:
            return 0
        if any(counters.counted(row.lower().replace("#", "1")) is not None for row in opening):
            return 0
        rows = _rows(self._tail)
        places = [
            at for at in range(len(rows) - 2 * OPENING + 1) if [row for _, row in rows[at : at + OPENING]] == opening
        ]
        if not places or len(places) > OPENING:
            return 0  # rows of every step's
        at = rows[places[-1]][0]
        lines = self._tail.decode("utf-8", "replace").split("\n")
        before, behind = (times.last("\n".join(part), self._now) for part in (lines[:at], lines[at : at + OPENING]))
        is_later = before is not None and behind is not None and behind - before >= LATER_S
        return self._first + at if self._first + at > OPENING and (alone or is_later) else 0


def _rows(data: bytes) -> list[tuple[int, str]]:
    """The lines that are not empty, without their numbers, each with its place."""
    texts = (raw[:OPENING_LONG].decode("utf-8", "replace").strip() for raw in data.split(b"\n"))
    return [(number, _DIGITS.sub("#", text)) for number, text in enumerate(texts) if text]


def _by_words(steps: Sequence[tuple[int, str, float]]) -> dict[str, list[float]]:
    """Numbers of steps in their order, by the words in front of them."""
    found: dict[str, list[float]] = {}
    for _, words, number in steps:
        found.setdefault(words, []).append(number)
    return found
