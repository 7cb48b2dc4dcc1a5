"""Colours: hangtop's own theme, and any theme as Rich styles for widgets that draw their own lines.

A glyph or word always repeats the meaning of a colour, so that the screen can be read in sixteen colours and without
colours (``NO_COLOR``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from rich.style import Style
from textual.color import Color
from textual.theme import Theme


class Colour(IntEnum):
    """The role of a piece of text; the theme defines its style."""

    TEXT = 0
    DIM = 1
    """Labels, units, unimportant text."""
    STRONG = 2
    OK = 3
    WARN = 4
    BAD = 5
    INFO = 6
    """Names and links: nodes, paths, keys."""
    ACCENT = 7
    """The most important item on the screen."""
    GRAPH = 8
    """Bars of a chart."""


class Background(IntEnum):
    """The background of a line."""

    PLAIN = 0
    CURSOR = 1
    STALE = 2
    """Old data: dim and italic in every colour, except alarms."""
    HEADER = 3
    BAR = 4
    """Banner, tabs, footer and dialogs."""


HEAT_STEPS = 16
"""Number of heat map colours, with full colours."""
SIXTEEN = "ansi-dark"
"""Textual's theme for terminals with sixteen colours or none."""
OWN = Theme(
    name="hangtop",
    primary="#6cb6d9",
    secondary="#8f9fd6",
    accent="#f0b45e",
    warning="#e3b341",
    error="#f0706b",
    success="#6fbf8b",
    foreground="#cdd6df",
    background="#11161c",
    surface="#161c24",
    panel="#1d252f",
)


@dataclass(frozen=True, slots=True)
class Palette:
    """All styles of hangtop's own widgets."""

    styles: tuple[tuple[Style, ...], ...]
    """Indexed by background, then colour."""
    heat: tuple[Style, ...]
    """From low to high; each a background with a readable foreground."""
    hues: tuple[Style, ...]
    """Colours for ranks."""
    alarm: tuple[Style, Style]
    """Styles of the banner for a warning and for a critical verdict."""

    def of(self, colour: Colour, ground: Background = Background.PLAIN) -> Style:
        """Style of a colour on a background."""
        return self.styles[ground][colour]

    def heated(self, share: float) -> Style:
        """The heat map style for a share of the maximum, 0 to 1."""
        return self.heat[round(share * (len(self.heat) - 1))]

    def hue(self, rank: int) -> Style:
        """A rank's own colour."""
        return self.hues[rank % len(self.hues)]


class HasPalette(Protocol):
    """An object with the styles of the present theme: the application."""

    palette: Palette


def palette_of(theme: Theme) -> Palette:
    """Make the styles of a theme."""
    return _ANSI if theme.ansi else _rich_palette(theme)


def _rich_palette(theme: Theme) -> Palette:
    foreground = Color.parse(theme.foreground or ("#e0e0e0" if theme.dark else "#202020"))
    background = Color.parse(theme.background or ("#121212" if theme.dark else "#f8f8f8"))
    primary, accent = Color.parse(theme.primary), Color.parse(theme.accent or theme.primary)
    error, warning = Color.parse(theme.error or "#f0706b"), Color.parse(theme.warning or "#e3b341")
    hot = Color.parse(theme.success or theme.primary)
    panel = Color.parse(theme.panel) if theme.panel else background.blend(foreground, 0.08)

    def shade(of: Color, share: float) -> str:
        return background.blend(of, share).hex

    def heated(share: float) -> str:
        ground = background.blend(primary.blend(hot, share), 0.08 + 0.77 * share)
        return f"{ground.get_contrast_text(1.0).hex6} on {ground.hex}"

    colours = (
        foreground.hex, shade(foreground, 0.6), f"bold {foreground.hex}", hot.hex, warning.hex, f"bold {error.hex}",
        primary.hex, f"bold {accent.hex}", shade(primary, 0.45),
    )  # fmt: skip
    grounds = (
        f"on {background.hex}", f"on {shade(primary, 0.26)}", f"italic {shade(foreground, 0.5)} on {background.hex}",
        f"bold {shade(foreground, 0.6)} on {background.hex}", f"on {panel.hex}",
    )  # fmt: skip
    hues = (Color.from_hsl(at * 0.381966 % 1, 0.55, 0.7 if theme.dark else 0.35).hex for at in range(12))
    alarm = f"bold {background.hex} on {warning.hex}", f"bold {background.hex} on {error.hex}"
    heat = (heated(step / (HEAT_STEPS - 1)) for step in range(HEAT_STEPS))
    return _palette(colours, grounds, heat, hues, alarm)


def _palette(
    colours: Iterable[str],
    grounds: Iterable[str],
    heat: Iterable[str],
    hues: Iterable[str],
    alarm: Iterable[str],
) -> Palette:
    """Make a palette from Rich style strings, in the order of :class:`Colour` and :class:`Background`."""
    roles, (warns, bad) = tuple(map(Style.parse, colours)), map(Style.parse, alarm)

    def style(colour: Colour, place: int, ground: Style) -> Style:
        """The style of a colour on a background; on old data only an alarm keeps its colour."""
        if ground.reverse:
            return Style(bold=roles[colour].bold) + ground
        stale = place == Background.STALE and colour is not Colour.BAD
        fades = stale or (place == Background.HEADER and colour is Colour.TEXT)
        return roles[colour] + ground if fades else ground + roles[colour]

    matrix = (
        tuple(style(colour, place, ground) for colour in Colour)
        for place, ground in enumerate(map(Style.parse, grounds))
    )
    return Palette(
        tuple(matrix), tuple(map(Style.parse, heat)), tuple(map(Style.parse, hues)), (warns, bad),
    )  # fmt: skip


_ANSI = _palette(
    ("", "dim", "bold", "green", "yellow", "bold bright_red", "cyan", "bold bright_yellow", "blue"),
    ("", "reverse", "dim italic", "bold underline", ""),
    ("bright_white on black", *["bright_white on blue"] * 2, "black on cyan", "black on green"),
    ("cyan", "yellow", "green", "magenta", "bright_cyan", "bright_yellow"),
    ("not dim reverse yellow", "not dim bold reverse red"),  # dim text would be hard to read on an alarm
)
"""For terminals with sixteen colours; for NO_COLOR, the application removes them."""
