"""Training steps in a log: finds the counter in a line, and tracks the counters of a growing file.

A counter is a word for a step followed by a number, or a progress bar. Signs of life (heartbeats, waits, retries) do
not count. A counter that grows in one kind of line counts steps. Old contents of a file show how far the job was, not
that it progresses.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from collectors.node.logs import prefixes, times
from collectors.samples.logs import StepCount

LONGEST = 2000
"""Characters of a line that are looked at."""
_WORD = (
    r"(?<![a-z0-9])(?P<name>steps?|iter(?:ation)?s?|it|(?:mini-?)?batch(?:es)?|updates?|epochs?)"
    r"(?:[ _-]?(?:num(?:ber)?|idx|index|id|count))?(?![a-z0-9])[\"']?(?:\((?:train|val|test)\))?"
    r"[\s:=#\[(\"'.]{1,16}(?P<n>\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,12})(?P<part>\.\d{1,12})?(?![\d.]*\d)"
    r"(?!\s?(?:m?s|secs?|seconds?|minutes?|[kmg]?i?b|%)(?![a-z]))"
)
_FRACTION = r"\[\s{0,8}(?P<n>\d{1,12})\s{0,3}/\s{0,8}\d{1,12}(?=\s?\]| \()"
"""Count of batches next to the word for an epoch: ``Epoch: [0][ 10/5005]``."""
_BAR = r"\|\s{0,4}(?P<n>\d{1,12}(?:\.\d{1,6})?)[kmgt]?/\d[\d.]{0,12}[kmgt]?i?b? \[|(?:^|\s)(?P<n2>\d{1,12})it \["
_BEATS = (
    r"heart[ _-]?beat|keep[ _-]?alive|\balive\b|watchdog|\bwait(?:ing|ed)\b|\bretr(?:y|ies|ying)\b|\battempts?\b"
    r"|health[ _-]?check|\bping(?:ed|ing)?\b|(?<![\w/.])monitor(?:ing)?(?![\w/.])|\bpoll(?:s|ed|ing)?\b|no progress"
    r"|\bstuck\b|\bhung\b|\bhangs?\b|\buptime\b|\btime[ds]?[ -]?out\b|\bsleep(?:s|ing)?\b"
)
"""Words of lines that are printed whether or not training progresses."""
_TROUBLE = (
    r"error|warn|exception|traceback|fail|abort|fatal|kill|signal|critical"
    r"|^\s*file \"|^\s*(?:frame )?#\d|\b0x[0-9a-f]{6}"
)
_NAMES = {"st": "step", "it": "iteration", "up": "update", "ba": "batch", "mi": "batch", "ep": "epoch"}
"""Names of counters by the first letters of their words."""
_PLACE = {"step": 0, "iteration": 0, "update": 0, "batch": 1, "bar": 2, "epoch": 3}
"""Preference of counters, lowest first."""
_LATEST_EPOCH = 1e7
"""Ours: a larger "epoch" is a time in seconds since 1970."""


class StepSeen(NamedTuple):
    """The counter of one line."""

    name: str
    """``step``, ``iteration``, ``update``, ``batch``, ``epoch`` or ``bar``."""
    value: float
    template: str
    """The line's words before the number: lines with the same words have the same counter."""


def plain(line: bytes) -> str:
    """A line in lower case, without escape codes, cut to :data:`LONGEST` characters."""
    text = line[: 4 * LONGEST].decode("utf-8", "replace")[:LONGEST]
    return (re.sub(prefixes.ESCAPES, "", text) if "\x1b" in text else text).lower()


def is_trouble(text: str) -> bool:
    """Whether a line may belong to an error, and so is no sign of progress."""
    return re.search(_TROUBLE, text) is not None


def counted(text: str) -> Optional[StepSeen]:
    """The counter of a line in lower case; None without a counter, or for a sign of life. Takes linear time."""
    found: List[StepSeen] = []
    for match in re.finditer(_WORD, text):
        name = _NAMES[match.group("name")[:2]]
        value = float(match.group("n").replace(",", "") + (match.group("part") or ""))
        if (name == "epoch" and value >= _LATEST_EPOCH) or (name != "epoch" and match.group("part")):
            continue  # seconds since 1970, or the duration of a step
        found.append(StepSeen(name, value, _words(text[: match.start("n")])))
    if all(each.name == "epoch" for each in found):
        bar = re.search(_BAR, text)
        within = re.search(_FRACTION, text) if found and bar is None else None
        if bar is not None:
            found.append(StepSeen("bar", float(bar.group("n") or bar.group("n2")), _words(text[: bar.start()])))
        elif within is not None:
            found.append(StepSeen("batch", float(within.group("n")), _words(text[: within.start()])))
    return min(found, key=lambda each: _PLACE[each.name]) if found and not re.search(_BEATS, text) else None


def _words(text: str) -> str:
    """A line without its numbers: the same for all lines of one kind."""
    return re.sub(r"[\d.,:%|/\\#=>\u2500-\u25ff+-]+|\b[0-9a-f]{6,}\b", " ", text[:160])


# --- the counters of one file ----------------------------------------------------------------------------------------

SEEN = 32 << 10
"""Bytes at the end of a piece that are searched for steps."""
ALIKE, LINES = 4, 128
"""Last lines of a piece that are read: at most so many of one kind, and so many in total."""
_KIND, _VARY = 400, b"0123456789abcdef.,+- "
"""Bytes of a line that define its kind, and characters ignored in them."""
COUNTERS = 64
"""Counters followed in one file at most: more counters mean that the words differ in every line."""
RISES = 8
"""Rises that are remembered to measure the rhythm."""


class _Counter:
    """One counter: the numbers in one kind of line. A number at half of the highest or below begins a new count."""

    def __init__(self, seen: StepSeen, at: Optional[float], stamp: Optional[float]) -> None:
        self.name = seen.name
        self.high = seen.value
        self.at = at
        """When its last rise was written."""
        self.rises = 0
        self.times = [] if stamp is None else [(stamp, seen.value)]
        """Printed time and number of the last rises."""

    def rises_to(self, seen: StepSeen, at: Optional[float], stamp: Optional[float]) -> bool:
        """Take the next number; True if the count rose."""
        before = self.high
        if seen.value > before or seen.value <= before / 2:
            self.high = seen.value
        if seen.value <= before:
            return False
        self.at = at
        self.rises += 1
        if stamp is not None:
            self.times = [*self.times, (stamp, seen.value)][-RISES:]
        return True

    def rhythm(self) -> Tuple[Optional[float], Optional[float]]:
        """Median seconds between two rises, and the longest seconds per step, from printed times."""
        pairs = list(zip(self.times, self.times[1:]))
        spans = sorted(after - before for (before, _), (after, _) in pairs)
        each = [(after - at) / (to - value) for (at, value), (after, to) in pairs if to > value and after >= at]
        median = spans[len(spans) // 2] if len(spans) > 1 and spans[0] >= 0.0 else None
        return median, max(each, default=None)


class LogSteps:
    """The step counters of one log file."""

    def __init__(self) -> None:
        self._counters: Dict[str, _Counter] = {}
        self._pending = b""
        self._grown = 0

    def take(self, data: bytes, now: float, at: Optional[float], *, live: bool) -> None:
        """Take the next bytes; ``at`` is the time at which their end was written, if known.

        ``live`` is False for contents from before the file was followed.
        """
        whole = self._pending + data
        lines = whole[-SEEN:].replace(b"\r", b"\n").split(b"\n")
        if len(whole) > SEEN:
            lines[0] = b""
        self._pending = lines[-1][-4 * LONGEST :]
        if self._pending[-1:].isdigit() or re.search(_BAR, plain(self._pending)) is None:
            del lines[-1]  # a line without its end, save for a progress bar: its end comes after it, or never
        chosen = _last_of_each_kind(lines)
        for line in chosen:
            text = plain(line)
            seen, stamp = counted(text), times.find(text, now)
            written = at if live or (stamp is None and line is chosen[-1]) else stamp
            known = None if seen is None else self._counters.get(seen.template)
            if seen is not None and known is not None:
                self._grown += known.rises_to(seen, written, stamp) and live
            elif seen is not None and len(self._counters) < COUNTERS:
                self._counters[seen.template] = _Counter(seen, written, stamp)

    def best(self, path: str, pid: Optional[int]) -> Optional[StepCount]:
        """Progress of the best counter; None without one."""
        known = [each for each in self._counters.values() if each.rises or _PLACE[each.name] == 0]
        if not known:
            return None
        chosen = min(known, key=lambda each: (_PLACE[each.name], -(each.at or 0.0), -each.rises))
        return StepCount(path, pid, chosen.name, chosen.high, chosen.at, self._grown, *chosen.rhythm())


def _last_of_each_kind(lines: List[bytes]) -> List[bytes]:
    """The lines to read, in order: a flood consists of few kinds of lines, each repeated many times."""
    chosen: List[bytes] = []
    counts: Dict[bytes, int] = {}
    for line in reversed(lines):
        kind = line[:_KIND].translate(None, _VARY)
        counts[kind] = counts.get(kind, 0) + 1
        if line.strip() and counts[kind] <= ALIKE and len(chosen) < LINES:
            chosen.append(line)
    return chosen[::-1]
