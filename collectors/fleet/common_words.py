"""Words that thousands of samples say alike, decoded to one and the same text.

A decoder makes a text anew for each ``R`` and each ``P0``: 64 bytes, of which 16,384 ranks and as many GPUs that move
hold several at any moment. Of a field for which all its words are known beforehand msgspec gives out the ones that it
was told, at no cost. A field that says another word is no worse for it: see :mod:`collectors.fleet.decode`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from collectors.fleet.bounds import annotate

STATES = Literal["R", "S", "D", "T", "t", "Z", "X", "I"]
"""Letters of /proc/PID/stat (proc(5))."""
PERFORMANCE = Literal[
    "", "P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15"
]
"""What nvidia-smi calls performance states."""
RECOVERY = Literal["", "[N/A]", "N/A", "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"]
"""What nvidia-smi says that a GPU needs."""
ROLES = Literal["data_worker", "compile_worker", "helper"]

WORDS: dict[str, dict[str, Any]] = {
    "RankPulse": {"state": STATES},
    "Helper": {"state": STATES, "role": ROLES},
    "GpuSample": {"pstate": PERFORMANCE, "recovery_action": RECOVERY},
}
"""The usual words of a field, by kind of sample."""


@contextmanager
def usual_words(kind: type) -> Iterator[None]:
    """Decoders of this kind that are made in the block take the usual words alone, and hold each of them once."""
    words = WORDS.get(kind.__name__, {})
    before = kind.__annotations__
    annotate(kind, {**before, **words})
    try:
        yield
    finally:
        annotate(kind, before)
