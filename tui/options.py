"""How the screen looks; what is watched is the session's business."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """Options of the screen, as the command line says them."""

    theme: str = ""
    """Name of a theme; empty picks by what the terminal can show."""
    no_color: bool = False
    """Bold, dim, underline and reverse alone, as with ``NO_COLOR``."""
    refresh: float = 1.0
    """Seconds between two drawings, 0.25 to 10."""
    report_folder: Path | None = None
    """Where incident reports go; None is the present folder."""
    bell: bool = True
    """Ring when a hung or crashed verdict newly appears."""
