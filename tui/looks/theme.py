"""Colours: one theme of hangtop's own beside Textual's, and each as Rich styles for widgets that draw their own lines.

Meaning is never carried by colour alone: each one that says something goes with a glyph or a word. So the screen can
be read in sixteen colours and in none (``NO_COLOR``).
"""

from __future__ import annotations

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
    MARKED = 2
    STALE = 3
    """Old data: dim and slanted whatever the colour, except alarms."""
    HEADER = 4
    BAR = 5
    """Banner, tabs, footer and dialogs."""


HEAT_STEPS = 16
"""Colours of the heat map."""
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
    found: Style
    """What a search found."""
    alarm: tuple[Style, Style, Style]
    """The banner: calm, a background alone; warning and critical, whatever its pieces are."""

    def of(self, colour: Colour, ground: Background = Background.PLAIN) -> Style:
        """Style of a colour on a background."""
        return self.styles[ground][colour]

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

    def shade(of: Color, share: float) -> Color:
        return background.blend(of, share)

    def heated(share: float) -> Style:
        ground = shade(primary.blend(hot, share), 0.08 + 0.77 * share)
        return Style(color=ground.get_contrast_text(1.0).rich_color, bgcolor=ground.rich_color)

    colours = (
        Style(color=foreground.rich_color),
        Style(color=shade(foreground, 0.6).rich_color),
        Style(color=foreground.rich_color, bold=True),
        Style(color=hot.rich_color),
        Style(color=warning.rich_color),
        Style(color=error.rich_color, bold=True),
        Style(color=primary.rich_color),
        Style(color=accent.rich_color, bold=True),
        Style(color=shade(primary, 0.6).rich_color),
    )
    grounds = (
        Style(bgcolor=background.rich_color),
        Style(bgcolor=shade(primary, 0.26).rich_color),
        Style(bgcolor=shade(accent, 0.16).rich_color),
        Style(bgcolor=background.rich_color, color=shade(foreground, 0.5).rich_color, italic=True),
        Style(bgcolor=background.rich_color, color=shade(foreground, 0.6).rich_color, bold=True),
        Style(bgcolor=panel.rich_color),
    )
    light = 0.7 if theme.dark else 0.35
    return Palette(
        _matrix(colours, grounds),
        tuple(heated(step / (HEAT_STEPS - 1)) for step in range(HEAT_STEPS)),
        tuple(Style(color=Color.from_hsl(number * 0.381966 % 1, 0.55, light).rich_color) for number in range(12)),
        Style(bgcolor=shade(accent, 0.45).rich_color, color=foreground.rich_color),
        (
            Style(bgcolor=panel.rich_color),
            Style(bgcolor=warning.rich_color, color=background.rich_color, bold=True),
            Style(bgcolor=error.rich_color, color=background.rich_color, bold=True),
        ),
    )


def _matrix(colours: tuple[Style, ...], grounds: tuple[Style, ...]) -> tuple[tuple[Style, ...], ...]:
    """Combine both. On old data only an alarm keeps its colour; a reversed line has one colour for all."""

    def one(colour: Colour, place: int, ground: Style) -> Style:
        if ground.reverse:
            return Style(bold=colours[colour].bold) + ground
        stale = place == Background.STALE and colour is not Colour.BAD
        fades = stale or (place == Background.HEADER and colour is Colour.TEXT)
        return colours[colour] + ground if fades else ground + colours[colour]

    return tuple(tuple(one(colour, place, ground) for colour in Colour) for place, ground in enumerate(grounds))


def _ansi_heat(step: int) -> Style:
    fifth = step * 5 // HEAT_STEPS
    return Style(
        bgcolor=("black", "blue", "blue", "cyan", "green")[fifth], color="bright_white" if fifth < 2 else "black"
    )


_ANSI = Palette(
    _matrix(
        (
            Style(),
            Style(dim=True),
            Style(bold=True),
            Style(color="green"),
            Style(color="yellow"),
            Style(color="bright_red", bold=True),
            Style(color="cyan"),
            Style(color="bright_yellow", bold=True),
            Style(color="blue"),
        ),
        (
            Style(),
            Style(reverse=True),
            Style(underline=True),
            Style(dim=True, italic=True),
            Style(bold=True, underline=True),
            Style(),
        ),
    ),
    tuple(map(_ansi_heat, range(HEAT_STEPS))),
    tuple(Style(color=hue) for hue in ("cyan", "yellow", "green", "magenta", "bright_cyan", "bright_yellow")),
    Style(reverse=True),
    # not dim: what is dim beside an alarm would hardly be read on it
    (Style(), Style(color="yellow", reverse=True, dim=False), Style(color="red", bold=True, reverse=True, dim=False)),
)
"""For terminals of sixteen colours; without colours the application takes them away."""
