"""Which NVLinks are up, as saved: ``nvidia-smi nvlink -s`` and ``dcgmi nvlink --link-status``.

A line a link, or a letter: nvidia-smi gives a speed or ``<inactive>``;
DCGM ``U`` (up), ``D`` (down), ``X`` (switched off), ``_`` (there is none).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.gpus import NvlinkCounters

_GPU = re.compile(r"^\s{0,12}(?:GPU (?P<smi>\d{1,4}): [^\r\n]{1,200}|gpuId (?P<dcgm>\d{1,4}):\s{0,4})$")
_SWITCH = re.compile(r"^\s{0,12}(?:NvSwitches:|physicalId \d{1,4}:)")
_LINK = re.compile(r"^\s{1,16}Link (?P<link>\d{1,3}): (?:(?P<down><inactive>)|\d{1,5}(?:\.\d{1,6})? GB/s)\s{0,4}$")
_LETTERS = re.compile(r"^\s{1,16}(?P<letters>[UDX_](?: [UDX_]){1,63})\s{0,4}$")
_BEGINS = 16
"""Lines within which the first link must come: further down it is a log that quotes such a table."""


def looks_like(head: str) -> bool:
    """Whether a text that begins so is such a table."""
    rows = head.split("\n")[:_BEGINS]
    return any(map(_GPU.match, rows)) and any(_LINK.match(row) or _LETTERS.match(row) for row in rows)


def parse(text: str) -> list[NvlinkCounters]:
    """The links that are up or down, without counters; those switched off, and those that are none, are left out."""
    return list(_links(text))


def _links(text: str) -> Iterator[NvlinkCounters]:
    gpu: int | None = None
    for row in text.split("\n"):
        named = _GPU.match(row)
        if named is not None or _SWITCH.match(row):
            gpu = None if named is None else int(named.group("smi") or named.group("dcgm"))
            continue
        link, letters = _LINK.match(row), _LETTERS.match(row)
        if gpu is None:
            continue
        if link is not None:
            yield _link(gpu, int(link.group("link")), link.group("down") is None)
        elif letters is not None:
            for number, letter in enumerate(letters.group("letters").split(" ")):
                if letter in "UD":
                    yield _link(gpu, number, letter == "U")


def _link(gpu: int, link: int, active: bool) -> NvlinkCounters:
    return NvlinkCounters(gpu, link, active, None, None, None, None, None)
