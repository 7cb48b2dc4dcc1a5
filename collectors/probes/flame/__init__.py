"""Flame graphs of ranks: sampled for some seconds without pausing them, saved here, and a tree for the screen."""

from __future__ import annotations

from collectors.probes.flame.files import Saved, as_speedscope, as_svg, save
from collectors.probes.flame.profile import Flame, folded, profile
from collectors.probes.flame.record import Recorded, record, shown_command

__all__ = [
    "Flame",
    "Recorded",
    "Saved",
    "as_speedscope",
    "as_svg",
    "folded",
    "profile",
    "record",
    "save",
    "shown_command",
]
