"""Colours that can be read on one another: contrast as WCAG 2 reckons it, and the nearest colour that has enough."""

from __future__ import annotations

from textual.color import Color

LEAST = 4.5
"""What WCAG asks of text."""
STEPS = 40


def luminance(colour: Color) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2, "relative luminance")."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Color, other: Color) -> float:
    """Contrast ratio, 1 to 21, whichever is the lighter."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def legible(colour: Color, ground: Color) -> Color:
    """The colour, or the nearest one on its way to white or black that has enough contrast on the ground."""
    if contrast(colour, ground) >= LEAST:
        return colour
    ends = Color(255, 255, 255), Color(0, 0, 0)
    towards = max(ends, key=lambda end: contrast(end, ground))
    for step in range(1, STEPS):
        nearer = colour.blend(towards, step / STEPS)
        if contrast(nearer, ground) >= LEAST:
            return nearer
    return towards
