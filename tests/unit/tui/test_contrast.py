"""Every pair of colours that is drawn can be read: 4.5 to 1 or more, in every theme that has colours of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from tui.looks.contrast import LEAST, contrast, legible
from tui.looks.theme import THEMES, Ground, Ink, Tone, ink_of

OWN = [theme for theme in THEMES if not theme.ansi]
"""The sixteen colours are the terminal's own: nobody but it knows them."""

channel = st.integers(0, 255)
colours = st.builds(Color, channel, channel, channel)


def pairs(ink: Ink) -> Iterator[tuple[str, Style]]:
    """Everything that is drawn, foreground and ground together."""
    for ground in Ground:
        for tone in Tone:
            yield f"{tone.name} on {ground.name}", ink.of(tone, ground)
    for step, style in enumerate(ink.heat):
        yield f"heat {step}", style
    yield "found", ink.found
    for loud, over in enumerate(ink.alarm):
        for tone in Tone:
            yield f"{tone.name} on alarm {loud}", ink.of(tone, Ground.BAR) + over
    for number, hue in enumerate(ink.hues):
        for ground in (Ground.PLAIN, Ground.CURSOR, Ground.MARKED, Ground.CURSOR_MARKED, Ground.BAR):
            yield f"hue {number} on {ground.name}", ink.of(Tone.TEXT, ground) + hue


@pytest.mark.parametrize("theme", OWN, ids=lambda theme: theme.name)
def test_every_pair_of_the_own_widgets_can_be_read(theme: Theme) -> None:
    weak = {}
    for name, style in pairs(ink_of(theme)):
        assert style.color is not None, name
        assert style.bgcolor is not None, name
        ratio = contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
        if ratio < LEAST:
            weak[name] = round(ratio, 2)
    assert not weak


@pytest.mark.parametrize("theme", OWN, ids=lambda theme: theme.name)
def test_what_textual_draws_in_these_colours_can_be_read(theme: Theme) -> None:
    grounds = [theme.background, theme.surface, theme.panel]
    inks = [theme.foreground, theme.primary, theme.accent, theme.warning, theme.error, theme.success]
    weak = [
        (ink, ground, round(ratio, 2))
        for ground in grounds
        for ink in inks
        if ink and ground and (ratio := contrast(Color.parse(ink), Color.parse(ground))) < LEAST
    ]
    assert not weak


def test_black_on_white_is_twenty_one_to_one_and_a_colour_on_itself_one() -> None:
    assert contrast(Color(0, 0, 0), Color(255, 255, 255)) == pytest.approx(21)
    assert contrast(Color(118, 118, 118), Color(255, 255, 255)) == pytest.approx(4.54, abs=0.01)
    assert contrast(Color(9, 80, 200), Color(9, 80, 200)) == 1


@given(colour=colours, ground=colours)
def test_any_colour_becomes_legible_on_any_ground(colour: Color, ground: Color) -> None:
    found = legible(colour, ground)
    assert contrast(found, ground) >= LEAST
    if contrast(colour, ground) >= LEAST:
        assert found == colour


@pytest.mark.parametrize("plain", [False, True])
def test_in_the_terminals_own_colours_nothing_is_dim_on_an_alarm(plain: bool) -> None:
    (theme,) = (theme for theme in THEMES if theme.ansi)
    ink = ink_of(theme, plain=plain)
    assert not [tone for over in ink.alarm[1:] for tone in Tone if (ink.of(tone, Ground.BAR) + over).dim]
