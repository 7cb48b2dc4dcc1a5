"""Flame graphs of ranks: sampled for some seconds without pausing them, saved here, and a tree for the screen."""

from __future__ import annotations

from collectors.probes.flame.files import ProfileFiles, as_speedscope, as_svg, save
from collectors.probes.flame.profile import Flame, folded, profile
from collectors.probes.flame.record import FoldedStacks, record, shown_command

__all__ = [
    "Flame",
    "FoldedStacks",
    "ProfileFiles",
    "as_speedscope",
    "as_svg",
    "folded",
    "profile",
    "record",
    "save",
    "shown_command",
]
