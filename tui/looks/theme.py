"""Colours: Textual themes, and the same as Rich styles for widgets that draw their own lines.

Meaning is never carried by colour alone: each one that says something goes with a glyph or a word. So the screen can
be read in sixteen colours, in none (``NO_COLOR``) and with ``--ascii``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme


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
    CURSOR_MARKED = 3
    STALE = 4
    """Old data: dim and slanted whatever the colour, except alarms."""
    STALE_CURSOR = 5
    HEADER = 6
    BAR = 7
    """The ground of banner, tabs, footer and dialogs."""


HEAT_STEPS = 16

DARK = Theme(
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
    variables={"scrollbar": "#2b3744", "scrollbar-background": "#11161c", "footer-key-foreground": "#f0b45e"},
)
LIGHT = Theme(
    name="hangtop-light",
    primary="#0b6a99",
    secondary="#4a56a6",
    accent="#925600",
    warning="#885d00",
    error="#b3261e",
    success="#1c733f",
    foreground="#1f2933",
    background="#fbfbf8",
    surface="#f2f2ee",
    panel="#e7e8e3",
    dark=False,
    variables={"scrollbar": "#c4c8c4", "scrollbar-background": "#fbfbf8", "footer-key-foreground": "#925600"},
)
SAFE = Theme(
    # after the palette of Okabe and Ito: blue and orange are told apart in every kind of colour blindness
    name="hangtop-safe",
    primary="#56b4e9",
    secondary="#9aa7d8",
    accent="#f0e442",
    warning="#e0c23c",
    error="#ff8c42",
    success="#56b4e9",
    foreground="#d6dade",
    background="#101418",
    surface="#151a20",
    panel="#1c232b",
    variables={"scrollbar": "#2b3744", "scrollbar-background": "#101418", "footer-key-foreground": "#f0e442"},
)
SIXTEEN = replace(
    BUILTIN_THEMES["ansi-dark"],
    name="hangtop-16",
    primary="ansi_cyan",
    secondary="ansi_blue",
    accent="ansi_yellow",
)
THEMES = (DARK, LIGHT, SAFE, SIXTEEN)

_HEAT = {
    "hangtop": ("#1a232d", "#203a4e", "#24586c", "#2f7a7c", "#4f9c86", "#8cc79a"),
    "hangtop-light": ("#e9ecef", "#cfe3ea", "#9ccbd6", "#5ba9b8", "#2f7f9a", "#1c4f7c"),
    "hangtop-safe": ("#0d2242", "#23416d", "#4d5f78", "#7d7f7c", "#b5a66a", "#f5dd5a"),
}
_RANK_HUES = (
    "#6cb6d9", "#e3b341", "#8fc98f", "#d58fd0", "#e98f6a", "#7fd0c4", "#a9a6f0", "#c9c46a",
    "#f08fa4", "#7fa8f0", "#b5d17a", "#d9a679",
)  # fmt: skip
_ANSI_HUES = ("cyan", "yellow", "green", "magenta", "bright_cyan", "bright_yellow", "bright_green", "bright_magenta")


@dataclass(frozen=True, slots=True)
class Palette:
    """Every style that hangtop's own widgets draw with."""

    styles: tuple[tuple[Style, ...], ...]
    """By ground, then colour."""
    heat: tuple[Style, ...]
    """From low to high, ``HEAT_STEPS`` of them: background, and a foreground that can be read on it."""
    hues: tuple[Style, ...]
    """Colours that tell ranks apart."""
    found: Style
    """What a search found."""
    alarm: tuple[Style, Style, Style]
    """The banner: calm, a ground alone; warning and critical, reversed, whatever its pieces are."""

    def of(self, colour: Colour, ground: Background = Background.PLAIN) -> Style:
        """Style of a colour on a ground."""
        return self.styles[ground][colour]

    def hue(self, rank: int) -> Style:
        """A rank's own colour."""
        return self.hues[rank % len(self.hues)]


class HasPalette(Protocol):
    """Has the styles of the present theme: the application, for all that draws itself."""

    palette: Palette


def palette_of(theme: Theme, *, plain: bool = False) -> Palette:
    """Make the styles of a theme; ``plain`` uses attributes alone (bold, dim, underline, reverse), no colour at all."""
    if plain:
        return _plain_palette()
    return _ansi_palette() if theme.ansi else _rich_palette(theme)


def _rich_palette(theme: Theme) -> Palette:
    foreground = Color.parse(theme.foreground or ("#e0e0e0" if theme.dark else "#202020"))
    background = Color.parse(theme.background or ("#121212" if theme.dark else "#f8f8f8"))
    primary, accent = Color.parse(theme.primary), Color.parse(theme.accent or theme.primary)
    colours = (
        Style(color=foreground.rich_color),
        Style(color=background.blend(foreground, 0.6).rich_color),
        Style(color=foreground.rich_color, bold=True),
        Style(color=Color.parse(theme.success or theme.primary).rich_color),
        Style(color=Color.parse(theme.warning or theme.primary).rich_color),
        Style(color=Color.parse(theme.error or theme.primary).rich_color, bold=True),
        Style(color=primary.rich_color),
        Style(color=accent.rich_color, bold=True),
        Style(color=background.blend(primary, 0.6).rich_color),
    )
    panel = Color.parse(theme.panel) if theme.panel else background.blend(foreground, 0.08)
    faded = background.blend(foreground, 0.5).rich_color
    under, cursor = background.rich_color, background.blend(primary, 0.26).rich_color
    grounds = (
        Style(bgcolor=under),
        Style(bgcolor=cursor),
        Style(bgcolor=background.blend(accent, 0.16).rich_color),
        Style(bgcolor=background.blend(accent, 0.34).rich_color),
        Style(color=faded, italic=True, bgcolor=under),
        Style(color=faded, italic=True, bgcolor=cursor),
        Style(color=background.blend(foreground, 0.6).rich_color, bold=True, bgcolor=under),
        Style(bgcolor=panel.rich_color),
    )
    stops = [Color.parse(stop) for stop in _HEAT.get(theme.name, _HEAT["hangtop" if theme.dark else "hangtop-light"])]
    error, warning = Color.parse(theme.error or "#f0706b"), Color.parse(theme.warning or "#e3b341")
    return Palette(
        _matrix(colours, grounds),
        tuple(_heat_style(stops, step / (HEAT_STEPS - 1)) for step in range(HEAT_STEPS)),
        tuple(Style(color=(hue if theme.dark else hue.darken(0.3)).rich_color) for hue in map(Color.parse, _RANK_HUES)),
        Style(bgcolor=background.blend(accent, 0.45).rich_color, color=foreground.rich_color),
        (
            Style(bgcolor=panel.rich_color),
            Style(bgcolor=warning.rich_color, color=background.rich_color, bold=True),
            Style(bgcolor=error.rich_color, color=background.rich_color, bold=True),
        ),
    )


_MARKS = (
    Style(),
    Style(reverse=True),
    Style(underline=True),
    Style(reverse=True, underline=True),
    Style(dim=True, italic=True),
    Style(dim=True, italic=True, reverse=True),
    Style(bold=True, underline=True),
    Style(),
)
"""What tells the grounds apart where there are no colours for it, in the order of :class:`Background`."""


def _ansi_palette() -> Palette:
    colours = (
        Style(),
        Style(dim=True),
        Style(bold=True),
        Style(color="green"),
        Style(color="yellow"),
        Style(color="bright_red", bold=True),
        Style(color="cyan"),
        Style(color="bright_yellow", bold=True),
        Style(color="blue"),
    )
    heats = ("black", "blue", "blue", "cyan", "green")
    heat = tuple(
        Style(
            bgcolor=heats[min(4, step * 5 // HEAT_STEPS)],
            color="bright_white" if step * 5 // HEAT_STEPS < 2 else "black",
        )
        for step in range(HEAT_STEPS)
    )
    # what is dim beside it would hardly be read on it
    alarm = (
        Style(),
        Style(color="yellow", reverse=True, dim=False),
        Style(color="red", bold=True, reverse=True, dim=False),
    )
    return Palette(
        _matrix(colours, _MARKS), heat, tuple(Style(color=hue) for hue in _ANSI_HUES), Style(reverse=True), alarm
    )


def _plain_palette() -> Palette:
    colours = (
        Style(),
        Style(dim=True),
        Style(bold=True),
        Style(),
        Style(bold=True),
        Style(bold=True, underline=True),
        Style(),
        Style(bold=True),
        Style(),
    )
    heat = tuple(Style(bold=step >= HEAT_STEPS // 2, dim=step == 0) for step in range(HEAT_STEPS))
    loud = Style(bold=True, reverse=True, dim=False)
    alarm = (Style(), loud, loud)
    return Palette(_matrix(colours, _MARKS), heat, (Style(),), Style(reverse=True), alarm)


def _matrix(colours: tuple[Style, ...], grounds: tuple[Style, ...]) -> tuple[tuple[Style, ...], ...]:
    """Combine grounds and colours. On stale ground only an alarm keeps its colour; a reversed line has one for all."""
    rows = []
    for number, ground in enumerate(grounds):
        if ground.reverse:
            rows.append(tuple(Style(bold=colour.bold) + ground for colour in colours))
            continue
        stale = number in (Background.STALE, Background.STALE_CURSOR)
        under = number == Background.HEADER
        wins = {
            colour for colour in Colour if (stale and colour is not Colour.BAD) or (under and colour is Colour.TEXT)
        }
        rows.append(
            tuple(colours[colour] + ground if colour in wins else ground + colours[colour] for colour in Colour)
        )
    # one object for what looks alike: neighbours are put together by identity
    alike: dict[Style, Style] = {}
    return tuple(tuple(alike.setdefault(style, style) for style in row) for row in rows)


def _heat_style(stops: list[Color], share: float) -> Style:
    place = share * (len(stops) - 1)
    lower = min(int(place), len(stops) - 2)
    ground = stops[lower].blend(stops[lower + 1], place - lower)
    return Style(color=ground.get_contrast_text(1.0).rich_color, bgcolor=ground.rich_color)
