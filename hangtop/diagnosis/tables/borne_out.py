"""How many verdicts of each certainty were right in the suites, of how many; written by ``benchmarks/certainty.py``."""

from __future__ import annotations

from typing import Final

RIGHT_OF: Final = {
    "proven": (315, 315),
    "likely": (116, 116),
    "possible": (51, 72),
}
