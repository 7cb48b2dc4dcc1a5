"""How many verdicts of each certainty were right in the suites, of how many."""

from __future__ import annotations

from typing import Final

RIGHT_OF: Final = {
    "proven": (338, 338),
    "likely": (123, 123),
    "possible": (61, 81),
}
