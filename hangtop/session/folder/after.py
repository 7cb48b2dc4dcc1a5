"""What stands behind the words of a log: whether it goes on for long, counts steps, or counts them anew."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from collectors.node.logs.lines import counters, times
from collectors.node.logs.lines.line import records
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent

RECORDS, STEPS = 200, 5
"""Lines (or states of a progress bar) and different steps behind a fault that show that the run went on. What a
process had buffered comes out behind its traceback: some kilobytes, of the steps before it."""
LONG, FEW = 16 * 1024, 3
"""Bytes behind a fault that are more than what was buffered: fewer steps will do then, bare fractions among them."""
EPOCH = 1e9
"""By how much a step of a later epoch is later than any of the one before."""
ENDING = 40
"""Lines between a fault and the word that training is complete: less may be what another process was about to say."""
WROTE_ON_S, WROTE_ON_LATER_S = 30.0, 60.0
"""Seconds for which a log goes on behind an error, or an exception, that was logged."""
MANY, CLOSE, WROTE_ON_LONG_S = 20, 12, 600.0
"""Lines, and seconds between the first few and the last, behind an exception that nobody logged."""
_MAY_BE_LOGGED = ("log.error", "python.exception", "torch.address_in_use")
_SHELL = re.compile(r": line \d{1,6}: {1,8}\d{1,9} ")
"""``job.sh: line 105: 4711 Killed``: a script that goes on may have its reasons."""
_INFORMS = re.compile(r"(?:[^\r\n]{0,60}[\s\[|(])?(?:INFO|DEBUG)\b")
"""A line at the level of information: of a child's end somebody tells who goes on."""
_HANDLED = re.compile(
    r"(?i)\b(?:decreas|reduc|halv|lower|shrink)ing (?:the )?(?:\w{1,12} ){0,2}batch[_ -]?size"
    r"|\bretrying with (?:a )?(?:smaller|lower|batch)|\btrying (?:a )?(?:smaller |lower )?batch[_ -]?size"
    r"|\bskipping (?:this |the )?(?:current )?(?:batch|step|micro-?batch)\b"
)
"""What a program says that is still there when its GPU's memory ran out, and how many lines below it may stand."""
_SOON = 3
_OF_A_CHILD = re.compile(r"(?:^|[\s\[|(:-])WARN(?:ING)?\b[^\r\n]{0,160}?\bCommand '")
"""A line at the level of warnings about a command that failed: whoever ran it goes on without what it would do."""
_FRONT, _OTHERS = 160, 64
"""Bytes of a line in which a host's label stands, and lines without it that are looked at for another host's."""


def last_line(event: LogEvent) -> int:
    """The number of the last line of its record, of which its text may have left out some."""
    lines = event.data.get("record_lines")
    return event.line + (lines - 1 if isinstance(lines, int) else event.text.rstrip("\n").count("\n"))


def anchor(event: LogEvent) -> str:
    """The line of its text to look for: its last one, of an exception the one that tells the type.

    Behind that other lines of the log may have been taken for the message.
    """
    told = [line.strip() for line in event.text.rstrip().split("\n")]
    name = event.data.get("type")
    typed = [line for line in told if isinstance(name, str) and name and name in line]
    return typed[-1] if typed else told[-1]


class After:
    """What stands in the end of a log behind its events."""

    def __init__(self, tail: bytes, first: int, last: float | None, now: float) -> None:
        """``first`` is the number of the first line in ``tail``, ``last`` the last time that the log prints."""
        self._tail, self._first, self._last, self._now = tail, first, last, now
        self._hosts: dict[str, After | None] = {}
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

    def of(self, event: LogEvent) -> After:
        """The same of the lines of its own host alone, where the log has those of several hosts by their labels.

        What other hosts write behind it, or stands behind it as its file was put behind another's, is not its own.
        """
        found = self._where(event)
        if found is None or found < 0:
            return self
        begin = self._tail.rfind(b"\n", 0, found) + 1
        host = _labelled(self._tail[begin:].split(b"\n", 1)[0], self._now)
        if host and host not in self._hosts:
            self._hosts[host] = self._only(host)
        return self._hosts.get(host) or self

    def _only(self, host: str) -> After | None:
        """What lines of this host tell; None where no other is named."""
        word = host.encode("utf-8", "replace")
        rows = self._tail.split(b"\n")
        others = [row for row in rows if row.strip() and word not in row[:_FRONT]][:_OTHERS]
        if all(_labelled(row, self._now) in ("", host) for row in others):
            return None
        return After(b"\n".join(row for row in rows if word in row[:_FRONT]), self._first, self._last, self._now)

    def _where(self, event: LogEvent) -> int | None:
        """Where in the end it stands; -1: before it; None: cut, or put in other words, so that it is not known."""
        if 0 < last_line(event) < self._first:
            return -1  # what the end says in the same words is another's
        words = anchor(event).encode("utf-8", "replace")
        found = self._tail.rfind(words) if words else -1
        return None if found < 0 and last_line(event) >= self._first else found

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
            told = first if first is not None else event.data.get("after")
            first = told if found < 0 and isinstance(told, float) else times.last("\n".join(rows[:CLOSE]), self._now)
            return calm >= MANY and first is not None and last is not None and last - first > WROTE_ON_LONG_S
        if event.kind == "log.error" and _INFORMS.match(event.text):
            return calm >= FEW
        least = WROTE_ON_S if event.kind == "log.error" and first is not None else WROTE_ON_LATER_S
        if first is None and event.kind == "log.error":
            stamps = (times.find(row, self._now) for row in rows[:CLOSE] if not counters.is_trouble(row))
            first = next((stamp.at for stamp in stamps if stamp is not None), None)
        return calm > 0 and first is not None and last is not None and last - first >= least

    def is_handled(self, event: LogEvent) -> bool:
        """Whether the next lines say what the program does about it: of a GPU's memory that ran out, or of a child."""
        memory = event.kind == "torch.out_of_memory" or event.data.get("signature") == "out_of_memory"
        if not memory and event.kind not in ("python.exception", "log.error"):
            return False
        if event.kind == "log.error" and _OF_A_CHILD.search(event.text[:400]):
            return True
        found = self._where(event)
        if found is None or found < 0:
            return False
        behind = self._tail[found:].split(b"\n")[1 : 2 * _SOON]
        rows = [row.decode("utf-8", "replace") for row in behind if row.strip()][:_SOON]
        return any((memory and _HANDLED.search(row[:400])) or _OF_A_CHILD.search(row[:400]) for row in rows)

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


def after(parser: LogParser, now: float) -> After:
    """What stands in the end of a parser's log; ``now`` gives the year to times without one."""
    return After(parser.tail, parser.tail_line, parser.last_time(), now)


def _labelled(raw: bytes, now: float) -> str:
    """The host that stands in front of a line; empty for none, and for Ray's workers: others tell of their steps."""
    record = next(records(raw, 0, now), None)
    return "" if record is None or record.stream.tag.isdecimal() else record.stream.host


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
