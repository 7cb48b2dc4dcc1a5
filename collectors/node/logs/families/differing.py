"""Torch's older wordings of collectives that differ: one side alone, or the other one by the name of its operation.

``Rank 0 is running inconsistent collective: CollectiveFingerPrint(OpType=BROADCAST, …`` (1.10, 1.11), ``… but Rank 1 is
running collective: REDUCE.`` (1.12). Where both sides are told in full, ``mismatch.py`` reads them.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said

_SIDE = re.compile(
    r"Rank (?P<rank>\d{1,7}) is running (?:inconsistent )?collective:\s{0,4}"
    r"(?:CollectiveFingerPrint\((?P<print>[^\r\n)]{0,400})|(?P<op>[A-Z_]{3,40})\b)"
)
_PART = re.compile(r"(?P<name>OpType|TensorShape|TensorDtypes)=(?P<value>\[[^\]]{0,200}\]|[^,\s]{1,80})")
_NAMES = {"OpType": "op", "TensorShape": "shape", "TensorDtypes": "dtype"}
_TYPES = re.compile(r"Mismatch between collective operation types across ranks")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    sides = list(_SIDE.finditer(text))
    whole = [side for side in sides if side.group("print") and "OpType=" in side.group("print")]
    if (sides and len(whole) < 2) or (not sides and _TYPES.search(text)):
        data: Data = {}
        for suffix, side in zip(("_a", "_b"), sides):
            data["rank" + suffix] = int(side.group("rank"))
            if side.group("op"):
                data["op" + suffix] = side.group("op")
            for part in _PART.finditer(side.group("print") or ""):
                data[_NAMES[part.group("name")] + suffix] = part.group("value").strip("[]")
        data["differs"] = ["op"] if len(sides) != 2 or data.get("op_a") != data.get("op_b") else ["shape"]
        yield Said("torch.fingerprint", data)


FAMILY = Family(
    "differing",
    (b"is running collective", b"running inconsistent collective", b"operation types across"),
    read,
    re.compile(r"is running collective:\s*$"),
)
