"""What of a log line counts on as training goes on: a word for a step with a number after it, a fraction, or a bar.

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
_WORD = re.compile(
    r"(?<![a-z0-9])(?P<name>steps?|iter(?:ation)?s?|it|(?:mini-?)?batch(?:es)?|updates?|epochs?)"
    r"(?:[ _-]?(?:num(?:ber)?|idx|index|id|count))?(?![a-z0-9])[\"']?(?:\((?:train|val|test)\))?"
    r"[\s:=#\[(\"'.]{1,16}(?P<n>\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,12})(?P<part>\.\d{1,12})?(?![\d.]*\d)"
    r"(?!\s?(?:m?s|secs?|seconds?|minutes?|[kmg]?i?b|%)(?![a-z]))"
)
_FRACTION = re.compile(r"\[\s{0,8}(?P<n>\d{1,12})\s{0,3}/\s{0,8}(?P<of>\d{1,12})(?=\s?\]| \()")
_BAR = re.compile(
    r"\|\s{0,4}(?P<n>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[kmgt]?)/\d[\d.]{0,12}[kmgt]?i?b? \[|(?:^|\s)(?P<n2>\d{1,12})it \["
)
_PACE = re.compile(r"[ ,\[](?P<n>\d{1,9}(?:\.\d{1,6})?) ?(?P<per>s/(?:it|step|iter)|(?:it|step|iter)s?/s)\b")
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
_NAMES = {"it": "iteration", "iter": "iteration", "batche": "batch", "mini-batch": "batch", "minibatch": "batch"}
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
    for match in _WORD.finditer(text):
        name = match.group("name").rstrip("s")
        name = _NAMES.get(name, name)
        value = float(match.group("n").replace(",", "") + (match.group("part") or ""))
        if (name == "epoch" and value >= _LATEST_EPOCH) or (name != "epoch" and match.group("part")):
            continue  # seconds since 1970, or those that a step took
        epoch = max(epoch, value) if name == "epoch" else epoch
        found.append(Counted(name, _CLASS[name], value, 0.0, words(text[: match.start("n")])))
    steps = [each for each in found if each.kind != EPOCH] or _bare(text, within_epoch=bool(found))
    if not (steps or found) or is_beat(text):
        return None
    return min(steps, key=lambda each: each.kind)._replace(epoch=epoch) if steps else found[0]


def _bare(text: str, *, within_epoch: bool) -> List[Counted]:
    """A counter without a word for what it counts; a fraction beside an epoch counts batches within it."""
    bar = _BAR.search(text)
    if bar is not None:
        value = float(bar.group("n") or bar.group("n2")) * _UNITS[bar.group("unit") or ""]
        return [Counted("bar", BAR, value, 0.0, words(text[: bar.start()]))]
    fraction = _FRACTION.search(text)
    if fraction is None or int(fraction.group("n")) > int(fraction.group("of")):
        return []
    name, kind = ("batch", BATCH) if within_epoch else ("", BARE)
    return [Counted(name, kind, float(fraction.group("n")), 0.0, words(text[: fraction.start()]))]
