"""Horovod: the stall inspector's word on who has not submitted a tensor, and tensors that do not agree.

Formats of ``horovod/common/operations.cc`` (to 0.16: ``[missing ranks: 1]``, ``[ready ranks: 0, 2]`` behind each
operation) and ``stall_inspector.cc`` (from 0.17: a line a rank).
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, numbers

_OPERATION = re.compile(r"(?P<op>[\w./:-]{1,160}) ?\[(?P<which>missing|ready) ranks: ?(?P<ranks>[\d, ]{1,2000})\]")
_BY_RANK = re.compile(r"(?m)^\s{0,4}(?:\[\d{1,6}\] )?(?P<rank>\d{1,6}): ?\[(?P<op>[\w./:-]{1,160})")
_LIST_FOLLOWS = re.compile(r"(?:[Mm]issing|[Ss]talled) ranks:\s*$")
_ITEM = re.compile(r"^\s{0,4}(?:\[\d{1,6}\] )?\d{1,6}: ?\[")
_MISMATCH = re.compile(
    r"Mismatched (?P<what>(?:[a-zA-Z_/]+ ){0,3}(?:tensor shapes|data types|operations|root ranks))"
    r":? (?P<detail>[^\r\n]{0,300})"
)
_OPERATIONS = 64
"""Operations of one line that are looked at: a stalled job names all its gradients."""


def read(text: str) -> Iterator[Said]:
    """Events of one line, or of a list of ranks with what each has not submitted."""
    mismatch = _MISMATCH.search(text)
    if mismatch is not None:
        what = mismatch.group("what")
        differs = "shape" if "shape" in what else "dtype" if "type" in what else "op"
        yield Said("horovod.mismatch", {"differs": differs, "detail": mismatch.group(0).strip()[:300]})
        return
    if "Horovod has been shut down" in text:
        yield Said("horovod.victim", {})
        return
    seen = set()
    for count, match in enumerate(_OPERATION.finditer(text)):
        key = match.group("which"), match.group("ranks").strip()
        if count >= _OPERATIONS or key in seen:
            continue
        seen.add(key)
        data: Data = {"op": match.group("op"), key[0]: numbers(key[1])}
        yield Said("horovod.stalled", data, text=match.group(0))
    if not seen and ("issing ranks:" in text or "talled ranks:" in text):
        for match in _BY_RANK.finditer(text):
            yield Said(
                "horovod.stalled", {"op": match.group("op"), "missing": [int(match.group("rank"))]}, text=match.group(0)
            )


FAMILY = Family(
    "horovod",
    (b"issing ranks:", b"ready ranks:", b"talled ranks:", b"Mismatched ", b"Horovod has been shut down"),
    read,
    listed=(_LIST_FOLLOWS, _ITEM),
)
