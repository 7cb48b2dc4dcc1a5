"""What of a log line counts on as training goes on: steps, iterations, batches, epochs, progress bars.

No logger is known by name: a counter is a word for a step with a number after it, a fraction in brackets, or a bar.
Lines that only say that somebody is still there (heartbeats, waits, retries) count too, but not on training: they have
no counter.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional

LONGEST = 2000
"""Characters of a line that are looked at."""

STEP, BATCH, BAR, EPOCH, BARE = range(5)
"""How well a counter tells of steps, the best first."""

_CODES = re.compile(r"\x1b\[[0-9;?]{0,20}[@-~]")
_NUMBER = r"(?P<n>\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,12})(?P<part>\.\d{1,12})?(?![\d.]*\d)"
_WORD = re.compile(
    r"(?<![a-z0-9])(?P<name>steps?|iter(?:ation)?s?|it|(?:mini-?)?batch(?:es)?|updates?|epochs?)"
    r"(?:[ _-]?(?:num(?:ber)?|idx|index|no|id|count))?(?![a-z0-9])[\"']?(?:\((?:train|val|test)\))?"
    r"[\s:=#\[(\"'.]{1,16}" + _NUMBER + r"(?!\s?(?:m?s|secs?|seconds?|minutes?|[kmg]?i?b|%)(?![a-z]))"
)
_STEMS = ("step", "iter", "batch", "update", "epoch", "it")
"""One of which every word for a step has."""
_FRACTION = re.compile(
    r"\[\s{0,8}(?P<n>\d{1,12})\s{0,3}/\s{0,8}(?P<of>\d{1,12})(?=\s?\]| \()"
    r"|(?<![\w./])(?P<n2>\d{1,12})\s{0,3}/\s{0,8}(?P<of2>\d{1,12}) (?:batches|steps|iterations|iters?)\b"
)
_BAR = re.compile(
    r"\|\s{0,4}(?P<n>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[kmgt]?)/\d[\d.]{0,12}[kmgt]?i?b? \["
    r"|(?:^|\s)\w{1,40}: (?P<n4>\d{1,12}(?:\.\d{1,6})?)(?P<unit4>[kmgt]?)it/\d[\d.]{0,12}[kmgt]?it rate:"
    r"|(?:^|\s)(?P<n2>\d{1,12})it \["
    r"|^\s{0,8}(?P<n3>\d{1,12})/\d{1,12}\s{1,4}(?:[\u2500-\u25ff#]|\[[=>.]| - )"
)
_PACE = re.compile(r"[ ,\[](?P<n>\d{1,9}(?:\.\d{1,6})?) ?(?P<per>s/(?:it|step|iter)|(?:it|step|iter)s?/s)\b")
_HEAD = re.compile(r"\[(?P<n>\d{1,12})\][ :]")
_BEATS = re.compile(
    r"heart[ _-]?beat|keep[ _-]?alive|\balive\b|watchdog|\bwait(?:ing|ed)\b|\bretr(?:y|ies|ying)\b|\battempts?\b"
    r"|health[ _-]?check|\bping(?:ed|ing)?\b|(?<![\w/.])monitor(?:ing)?(?![\w/.])|\bpoll(?:s|ed|ing)?\b|no progress"
    r"|\bstuck\b|\bhung\b|\bhangs?\b|\buptime\b|\btime[ds]?[ -]?out\b|\bsleep(?:s|ing)?\b"
)
_TROUBLE = re.compile(
    r"error|warn|exception|traceback|fail|abort|fatal|kill|signal|critical"
    r"|^\s*file \"|^\s*(?:frame )?#\d|\b0x[0-9a-f]{6}"
)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_NAMES = {"it": "iteration", "iter": "iteration", "batche": "batch"}
_CLASS = {"step": STEP, "iteration": STEP, "update": STEP, "batch": BATCH, "epoch": EPOCH}
_LATEST_EPOCH = 1e7
"""More are seconds since 1970."""


class Counted(NamedTuple):
    """The counter of one line."""

    name: str
    """``step``, ``iteration``, ``update``, ``batch``, ``epoch``, ``bar``, or empty for a bare number."""
    kind: int
    """One of :data:`STEP` to :data:`BARE`."""
    value: float
    epoch: float
    """The epoch that the line names beside it, 0 without one: a count begins anew with each."""
    template: str
    """The line's words in front of the number: lines with the same ones count the same thing."""


def plain(line: bytes) -> str:
    """A line as text in small letters, without colours and without what is too long."""
    text = line[: 4 * LONGEST].decode("utf-8", "replace")[:LONGEST]
    return (_CODES.sub("", text) if "\x1b" in text else text).lower()


def is_beat(text: str) -> bool:
    """Whether a line says that somebody is there, waits or tries again: it comes whether or not training goes on."""
    return _BEATS.search(text) is not None


def is_trouble(text: str) -> bool:
    """Whether a line may belong to an error: it is no step of the job, however new it is."""
    return _TROUBLE.search(text) is not None


def pace(text: str) -> Optional[float]:
    """Seconds a step takes, where a line says it as bars do: ``3.2s/it`` or ``45.1it/s``."""
    found = _PACE.search(text)
    value = 0.0 if found is None else float(found.group("n"))
    if found is None or not value:
        return None
    return value if found.group("per").startswith("s/") else 1.0 / value


def words(text: str) -> str:
    """What is left of a line without its numbers: the same for all lines of one kind."""
    return re.sub(r"[\d.,:%|/\\#=>\u2500-\u25ff+-]+|\b[0-9a-f]{6,}\b", " ", text[:160])


def counted(text: str) -> Optional[Counted]:
    """The counter of one line in small letters; None without one, or for a mere sign of life. Linear in the line."""
    found: List[Counted] = []
    epoch = 0.0
    for match in _WORD.finditer(text) if any(stem in text for stem in _STEMS) else ():
        name = match.group("name").rstrip("s").replace("mini-", "mini").replace("minibatch", "batch")
        name = _NAMES.get(name, name)
        value = float(match.group("n").replace(",", "") + (match.group("part") or ""))
        if name == "epoch":
            if value >= _LATEST_EPOCH:
                continue
            epoch = max(epoch, value)
        elif match.group("part"):
            continue  # seconds that a step took
        found.append(Counted(name, _CLASS[name], value, 0.0, words(text[: match.start("n")])))
    finer = [each for each in found if each.kind != EPOCH]
    if not finer:
        finer = _bare(text)
        if found:  # a number beside an epoch counts within it
            finer = [each._replace(name="batch", kind=BATCH) if each.kind == BARE else each for each in finer]
    if not (finer or found) or is_beat(text):
        return None
    if finer:
        return min(finer, key=lambda each: each.kind)._replace(epoch=epoch)
    return found[0]


def _bare(text: str) -> List[Counted]:
    """Counters without a word for what they count."""
    bar = _BAR.search(text) if "/" in text or "it [" in text else None
    if bar is not None:
        number = bar.group("n") or bar.group("n2") or bar.group("n3") or bar.group("n4")
        unit = _UNITS[bar.group("unit") or bar.group("unit4") or ""]
        return [Counted("bar", BAR, float(number) * unit, 0.0, words(text[: bar.start()]))]
    fraction = _FRACTION.search(text) if "/" in text else None
    if fraction is not None:
        number, of = fraction.group("n") or fraction.group("n2"), fraction.group("of") or fraction.group("of2")
        if int(number) <= int(of):
            return [Counted("", BARE, float(number), 0.0, words(text[: fraction.start()]))]
    head = _HEAD.match(text)
    return [] if head is None else [Counted("", BARE, float(head.group("n")), 0.0, "[ ]" + words(text[head.end() :]))]
