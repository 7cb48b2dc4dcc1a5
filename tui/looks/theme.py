"""Colours: one theme of hangtop's own beside Textual's, and each as Rich styles for widgets that draw their own lines.

Meaning is never carried by colour alone: each one that says something goes with a glyph or a word. So the screen can
be read in sixteen colours and in none (``NO_COLOR``).
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
    """What a piece of text is; the theme says how that looks."""

    TEXT = 0
    DIM = 1
    """Labels, units, what is there but does not matter now."""
    STRONG = 2
    OK = 3
    WARN = 4
    BAD = 5
    INFO = 6
    """Names and links: nodes, paths, keys."""
    ACCENT = 7
    """The one thing on the screen that is looked for."""
    GRAPH = 8
    """Bars of a history."""


class Background(IntEnum):
    """What a line lies on."""

    PLAIN = 0
    CURSOR = 1
    STALE = 2
    """Old data: dim and slanted whatever the colour, except alarms."""
    HEADER = 3
    BAR = 4
    """Banner, tabs, footer and dialogs."""


HEAT_STEPS = 16
"""Colours of the heat map where there are all colours."""
SIXTEEN = "ansi-dark"
"""Textual's theme for terminals of sixteen colours, or none."""
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
    """Every style that hangtop's own widgets draw with."""

    styles: tuple[tuple[Style, ...], ...]
    """By background, then colour."""
    heat: tuple[Style, ...]
    """From low to high: a background, and a foreground that can be read on it."""
    hues: tuple[Style, ...]
    """Colours that tell ranks apart."""
    alarm: tuple[Style, Style]
    """The banner of a warning and of what is critical, whatever its pieces are."""

    def of(self, colour: Colour, ground: Background = Background.PLAIN) -> Style:
        """Style of a colour on a background."""
        return self.styles[ground][colour]

    def heated(self, share: float) -> Style:
        """The colour of the heat map for a share of what is most."""
        return self.heat[round(share * (len(self.heat) - 1))]

    def hue(self, rank: int) -> Style:
        """A rank's own colour."""
        return self.hues[rank % len(self.hues)]


class HasPalette(Protocol):
    """Has the styles of the present theme: the application, for all that draws itself."""

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
    """Make a palette of styles as Rich writes them, by :class:`Colour` and by :class:`Background`."""
    own, (warns, bad) = tuple(map(Style.parse, colours)), map(Style.parse, alarm)

    def one(colour: Colour, place: int, ground: Style) -> Style:
        """On old data only an alarm keeps its colour; a reversed line has one colour for all."""
        if ground.reverse:
            return Style(bold=own[colour].bold) + ground
        stale = place == Background.STALE and colour is not Colour.BAD
        fades = stale or (place == Background.HEADER and colour is Colour.TEXT)
        return own[colour] + ground if fades else ground + own[colour]

    matrix = (
        tuple(one(colour, place, ground) for colour in Colour) for place, ground in enumerate(map(Style.parse, grounds))
    )
    return Palette(
        tuple(matrix), tuple(map(Style.parse, heat)), tuple(map(Style.parse, hues)), (warns, bad),
    )  # fmt: skip


_ANSI = _palette(
    ("", "dim", "bold", "green", "yellow", "bold bright_red", "cyan", "bold bright_yellow", "blue"),
    ("", "reverse", "dim italic", "bold underline", ""),
    ("bright_white on black", *["bright_white on blue"] * 2, "black on cyan", "black on green"),
    ("cyan", "yellow", "green", "magenta", "bright_cyan", "bright_yellow"),
    ("not dim reverse yellow", "not dim bold reverse red"),  # what is dim would hardly be read on an alarm
)
"""For terminals of sixteen colours; without colours the application takes them away."""
