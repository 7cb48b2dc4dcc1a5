"""Tables of ``dcgmi diag``: a test a row, and what became of it; in DCGM 4 a row below it for each GPU."""

from __future__ import annotations

from typing import Iterator, List

from collectors.node import late_re as re
from collectors.node.logs.said import Family, Said
from collectors.samples.values import Scalar

_FAILED = re.compile(
    r"^\s{0,4}\|\s{0,4}(?P<test>[A-Za-z][^|\r\n]{0,40})?\s{0,60}\|\s{0,4}(?:GPU ?(?P<one>\d{1,4}): )?Fail"
    r"(?:\s{0,4}-\s{0,4}(?:All|GPUs?: ?(?P<gpus>\d{1,4}(?:, ?\d{1,4}){0,63})))?\s{0,80}\|\s{0,4}$"
)


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    failed = _FAILED.match(text)
    if failed is None:
        return
    gpus: List[Scalar] = [
        int(number) for number in (failed.group("gpus") or failed.group("one") or "").split(",") if number
    ]
    yield Said("gpu.test_failed", {"test": (failed.group("test") or "").strip(), "gpus": gpus})


FAMILY = Family("gpu_tests", (b"| Fail", b": Fail"), read)
