"""DistributedDataParallel's reports of parameters without a gradient, or with two."""

from __future__ import annotations

from typing import Iterator, List

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, number, numbers
from collectors.samples.values import Scalar

_UNUSED = re.compile(
    r"Expected to have finished reduction in the prior iteration"
    r"|parameters that were not used in producing the loss"
)
"""DDP's own words, and Lightning's for them."""
_INDICES = re.compile(r"Parameter indices which did not receive grad for rank (?P<reporter>\d+):\s*(?P<indices>[\d ]+)")
_NAMES = re.compile(
    r"Parameters which did not receive grad for rank"
    r" (?P<reporter>\d+):\s*(?P<names>[^\r\n]+?)(?:\s{2}|Parameter indices|$)"
)
_TWICE = re.compile(r"Expected to mark a variable ready only once")
_TWICE_INDEX = re.compile(r"Parameter at index (?P<index>\d+)(?: with name (?P<name>\S+))?")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    indices = _INDICES.search(text)
    names = _NAMES.search(text)
    if indices is not None or names is not None or _UNUSED.search(text):
        data: Data = {}
        for match in (indices, names):
            if match is not None:
                data["reporter"] = number(match.group("reporter"))
        if indices is not None:
            data["indices"] = numbers(indices.group("indices"))
        if names is not None:
            listed: List[Scalar] = [name.strip() for name in names.group("names").split(",")[:200] if name.strip()]
            data["names"] = listed
        yield Said("torch.unused_parameters", data)
    index = _TWICE_INDEX.search(text)
    if _TWICE.search(text) or (index is not None and "marked as ready" in text):
        data = {}
        if index is not None:
            data["index"] = number(index.group("index"))
            if index.group("name"):
                data["name"] = index.group("name")
        yield Said("torch.marked_twice", data)


FAMILY = Family(
    "ddp",
    (
        b"did not receive grad for rank",
        b"Expected to have finished reduction",
        b"not used in producing the loss",
        b"ready only once",
        b"marked as ready",
    ),
    read,
)
