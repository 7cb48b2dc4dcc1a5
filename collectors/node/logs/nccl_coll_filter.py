"""Sorts the lines of an NCCL log into collectives, lines that say nothing, and the rest, by whole blocks.

What differs from one collective of a communicator to the next (its count, buffers and sizes) stands between ``opCount``
and ``comm``. One regular expression over the block takes that out; the lines that remain are few different ones, and
equal lines are counted without any Python for each: 200 to 300 MB/s.
"""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterable, List, NamedTuple, Set

from collectors.node import late_re as re

MARK = b"NCCL INFO "
COUNT = b"opCount"

_HOLE = b"\0"
"""Stands for what was taken out. A text's own are made another control code before: neither has a meaning."""
_USUAL = re.compile(
    rb"opCount [0-9a-f][^ ]* sendbuff [^ ]+ recvbuff [^ ]+ count [^ ]+ datatype [^ ]+ op [^ ]+ root [^ ]+ (?=comm 0x)"
)
"""As NCCL has printed it since 2.10. Runs up to a certain byte cost least, so a line feed in it has to be ruled out."""
_VARYING = re.compile(rb"opCount[ :=][0-9a-f](?:[^\nA-Z\x1b[\\]{0,400} (?=comm 0x[0-9a-f])|[0-9a-f]*)")
"""Any other form. Nothing in it may change what the line is: no capitals (a second record, ``DONE``), no labels."""
_DAY = rb"\[?(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )"
_TIMED = re.compile(_DAY + rb"\d\d:")
_TIMES = re.compile(rb"\n" + _DAY + rb"\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? ")

_SAYING = rb"comm |nccl|Boot|NET/|Using|NCCL_|RCCL|\[Rank|Init |socketPoll|Call to connect"
_SAYING += rb"|[a-z_/]{2,40}\.(?:cc|cpp|cu):\d{1,5} -> [1-6]\b"
"""Beginnings of the INFO messages that the families read; the last is the trail that an error leaves."""
_TALK = re.compile(rb"\] NCCL INFO (?!" + _SAYING + rb")[^\n]{0,150}$")
_COLLECTIVE = re.compile(rb"NCCL INFO (?:COLL )?\w+:? \0")
_GLUED = b"Traceback ("
"""A short record that would be lost if another process wrote it into a line that says nothing."""
_LONGEST = 600
"""Bytes of a line that may be taken for a usual one."""
_KNOWN = 8192
"""Kinds that are remembered."""
_NEAR = 24 << 10
"""Bytes at a block's end in which the last collectives of all communicators stand as a rule."""

TALK, COLLECTIVE, OTHER, ODD = range(4)
"""What a line is: says nothing; a collective; something that the reader has to see; and one about collectives or
communicators that has to be read by itself."""


class BlockLines:
    """The lines of a block; cut up only as far as they are asked for."""

    def __init__(self, text: bytes, count: int) -> None:
        self._text = text
        self._count = count
        self._whole: List[bytes] = []
        self._end: List[bytes] = []

    def __getitem__(self, index: int) -> bytes:
        """Line by its index."""
        if not self._whole:
            self._end = self._end or self._text[-_NEAR:].split(b"\n")
            back = index - self._count - 1
            if -back < len(self._end):
                return self._end[back]
            self._whole = self._text.split(b"\n")
        return self._whole[index]


class Sifted(NamedTuple):
    """A block's lines, in order."""

    raw: BlockLines
    keys: List[bytes]
    """The lines without what varies: two collectives with equal keys are of one communicator, process and operation."""
    counts: Dict[bytes, int]
    collectives: Set[bytes]
    """Keys that are collectives."""
    rest: List[int]
    """Indices of the lines that the reader has to see, ascending; …"""
    odd: List[int]
    """… and of those among them that have to be taken by themselves."""


class Sifter:
    """Sorts blocks of one log; remembers what it saw before."""

    def __init__(self) -> None:
        self._kinds: Dict[bytes, int] = {}

    def sift(self, text: bytes, count: int) -> Sifted:
        """Sort so many whole lines, each ended by LF."""
        if _HOLE in text:
            text = text.replace(_HOLE, b"\1")
        keys = _without_times(_USUAL.sub(_HOLE, text))
        counts = Counter(keys)
        if len(keys) != count or any(COUNT in key for key in counts):
            whole = text if len(keys) != count else _USUAL.sub(_HOLE, text)
            keys = _without_times(_VARYING.sub(_HOLE, whole))
            counts = Counter(keys)
        kinds = {key: self._kind(key) for key in counts}
        rest: List[int] = []
        if any(kind >= OTHER for kind in kinds.values()):
            rest = [index for index, key in enumerate(keys) if kinds[key] >= OTHER]
        odd = [index for index in rest if kinds[keys[index]] == ODD]
        collectives = {key for key, kind in kinds.items() if kind == COLLECTIVE}
        return Sifted(BlockLines(text, count), keys, counts, collectives, rest, odd)

    def _kind(self, key: bytes) -> int:
        known = self._kinds.get(key)
        if known is not None:
            return known
        kind = _kind(key)
        if len(key) <= _LONGEST:
            if len(self._kinds) >= _KNOWN:
                self._kinds.clear()
            self._kinds[key] = kind
        return kind


def _without_times(body: bytes) -> List[bytes]:
    """Lines without the times in front of them."""
    if _TIMED.match(body):
        body = _TIMES.sub(b"\n", b"\n" + body)[1:]
    keys = body.split(b"\n")
    keys.pop()
    return keys


def _kind(key: bytes) -> int:
    holes = key.count(_HOLE)
    usual = len(key) <= _LONGEST and key.count(b"NCCL") == 1 and _GLUED not in key and COUNT not in key
    if usual and holes == 1 and _COLLECTIVE.search(key):
        return COLLECTIVE
    if holes or COUNT in key or b" nranks " in key:
        return ODD
    return TALK if usual and _TALK.search(key) else OTHER


def last(keys: List[bytes], wanted: Iterable[bytes]) -> Dict[bytes, int]:
    """Where each of the wanted keys, all of which are there, stands for the last time."""
    missing = set(wanted)
    found: Dict[bytes, int] = {}
    index = len(keys)
    while missing:
        index -= 1
        key = keys[index]
        if key in missing:
            missing.discard(key)
            found[key] = index
    return found
