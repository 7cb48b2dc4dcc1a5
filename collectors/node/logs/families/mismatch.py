"""What torch itself found out about ranks that differ: desync reports, DETAIL fingerprints, monitored barriers."""

from __future__ import annotations

from typing import Iterator, List, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields, number, numbers
from collectors.samples.values import Scalar

_DESYNC = re.compile(
    r"\[(?P<ranks>[\d, ]+)\]\s*(?:finished collective #(?P<finished>\d+), but )?didn't join"
    r" collective #(?P<missing>\d+)"
)
_NEVER_JOINED = re.compile(r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout")

# One after the other, each from where the one before ended: together they would try every first with every second.
_FIRST = re.compile(r"Rank (?P<rank_a>\d{1,9}) is running collective:\s{0,8}CollectiveFingerPrint\(")
_SECOND = re.compile(
    r"\)[\s,]{0,8}but\s{1,8}Rank (?P<rank_b>\d{1,9}) is running (?:inconsistent )?collective:\s{0,8}"
    r"CollectiveFingerPrint\("
)
_END = re.compile(r"\)\s{0,8}(?:\.|$)")
_FINGERPRINT_CHARS = 2000
"""Of one side's description."""
_PARTS: Tuple[Tuple[str, str], ...] = (
    ("seq", r"SequenceNumber=(\d+)"),
    ("op", r"OpType=(\w+)"),
    ("shape", r"TensorShape=\[([^\]]*)\]"),
    ("dtype", r"TensorDtypes=([^,)]+)"),
)
_ASPECTS: Tuple[Tuple[str, str], ...] = (
    ("op", r"Op type"),
    ("shape", r"[Ss]hapes?"),
    ("dtype", r"[Dd]types?"),
    ("sequence", r"[Ss]equence"),
    ("device", r"[Dd]evice"),
)

_MISSED = re.compile(
    r"(?:\[Rank (?P<reporter>\d+)\]:\s*)?Ranks? (?P<missing>\d+(?:,\s*\d+)*)\s+failed to"
    r" pass monitoredBarrier in (?P<timeout_ms>\d+)\s*ms"
)
_REACHED = re.compile(
    r"Rank (?P<reporter>\d+) successfully reached monitoredBarrier.*?(?:from rank (?P<waited_for>\d+))?(?:\.|$)"
)
_REACHED_FROM = re.compile(r"send/recv from rank (\d+)")
_TIMED_OUT = re.compile(r"Rank (?P<reporter>\d+) timed out in monitoredBarrier after (?P<timeout_ms>\d+)\s*ms")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    if "didn't join collective" in text or "lagging ranks" in text:
        yield from _desync(text)
    if "is running collective" in text:
        yield from _fingerprint(text)
    if "onitoredBarrier" in text:
        yield from _barrier(text)


def _desync(text: str) -> Iterator[Said]:
    for match in _DESYNC.finditer(text):
        data: Data = {"lagging": numbers(match.group("ranks"))}
        for name in ("finished", "missing"):
            value = number(match.group(name))
            if value is not None:
                data[name] = value
        yield Said("torch.desync", data)
    never = _NEVER_JOINED.search(text)
    if never is not None:
        yield Said("torch.desync", {"lagging": numbers(never.group("ranks")), "missing": 1})


def _fingerprint(text: str) -> Iterator[Said]:
    first = _FIRST.search(text)
    second = None if first is None else _SECOND.search(text, first.end(), first.end() + _FINGERPRINT_CHARS)
    if first is None or second is None:
        return
    end = _END.search(text, second.end(), second.end() + _FINGERPRINT_CHARS)
    if end is None:
        return
    data = {**fields(first, ("rank_a",)), **fields(second, ("rank_b",))}
    rest = text[end.end() :]
    for suffix, side in zip(("_a", "_b"), (text[first.end() : second.start()], text[second.end() : end.start()])):
        for name, pattern in _PARTS:
            part = re.search(pattern, side)
            if part is not None:
                data[name + suffix] = number(part.group(1)) if name == "seq" else part.group(1).strip()
    differs: List[Scalar] = [name for name, pattern in _ASPECTS if re.search(pattern, rest)]
    if not differs:
        differs = [
            "sequence" if name == "seq" else name
            for name, _ in _PARTS
            if data.get(name + "_a") != data.get(name + "_b")
        ]
    data["differs"] = differs or ["other"]
    yield Said("torch.fingerprint", data)


def _barrier(text: str) -> Iterator[Said]:
    missed = _MISSED.search(text)
    if missed is not None:
        data = fields(missed, ("reporter", "timeout_ms"))
        data["missing"] = numbers(missed.group("missing"))
        yield Said("torch.barrier_failed", data)
        return
    reached = _REACHED.search(text) or _TIMED_OUT.search(text)
    if reached is not None:
        data = fields(reached, ("reporter", "waited_for", "timeout_ms"))
        waited = _REACHED_FROM.search(text)
        if waited is not None:
            data["waited_for"] = number(waited.group(1))
        yield Said("torch.barrier_reached", data)


FAMILY = Family(
    "mismatch",
    (b"didn't join collective", b"are the lagging ranks", b"is running collective", b"onitoredBarrier"),
    read,
    re.compile(r"is running collective: CollectiveFingerPrint(?!.*differ in the following aspects:\s*\S)"),
)
