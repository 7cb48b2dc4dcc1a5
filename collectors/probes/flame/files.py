"""A profile as files: a flame graph in SVG, and speedscope's JSON (https://www.speedscope.app)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from collectors.probes.flame.profile import Flame

WIDTH = 1200.0
"""Points of the whole picture."""
_ROW, _MARGIN, _LETTER = 17, 24, 6.6
_NARROWEST = 0.3
"""Points under which a frame is not drawn: nobody could see it."""

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class ProfileFiles(NamedTuple):
    """The files of one profile."""

    svg: Path
    speedscope: Path


class _Box(NamedTuple):
    depth: int
    x: float
    width: float
    frame: Flame


def save(root: Flame, folder: Path, stem: str) -> ProfileFiles:
    """Write both files. Raises :class:`OSError` as the file system says it."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = ProfileFiles(folder / f"{stem}.svg", folder / f"{stem}.speedscope.json")
    saved.svg.write_text(as_svg(root), encoding="utf-8")
    saved.speedscope.write_text(json.dumps(as_speedscope(root)), encoding="utf-8")
    return saved


def as_svg(root: Flame) -> str:
    """An icicle: the outermost frame on top, as wide as its share of samples; hover for the figures."""
    boxes = list(_boxes(root, 0, 0.0, WIDTH)) if root.samples else []
    height = (max((box.depth for box in boxes), default=0) + 1) * _ROW + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}"'
        ' font-family="monospace" font-size="11">\n'
        '<rect width="100%" height="100%" fill="#fdfdf8"/>\n'
        f'<text x="4" y="16">{escape(root.name)}: {root.samples} samples</text>\n'
    )
    return head + "".join(_drawn(box, root.samples) for box in boxes) + "</svg>\n"


def _boxes(frame: Flame, depth: int, x: float, width: float) -> Iterator[_Box]:
    yield _Box(depth, x, width, frame)
    for child in frame.ordered():
        share = width * child.samples / frame.samples
        if share >= _NARROWEST:
            yield from _boxes(child, depth + 1, x, share)
        x += share


def _drawn(box: _Box, all_samples: int) -> str:
    name, y = box.frame.name, _MARGIN + box.depth * _ROW
    letters = int(box.width / _LETTER) - 1
    shown = name if len(name) <= letters else name[: max(0, letters - 1)] + "…" if letters > 2 else ""
    share = 100 * box.frame.samples / all_samples
    text = f'<text x="{box.x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else ""
    return (
        f"<g><title>{escape(name)}: {box.frame.samples} samples, {share:.1f} %</title>"
        f'<rect x="{box.x:.1f}" y="{y}" width="{box.width:.1f}" height="{_ROW - 1}" fill="{_colour(name)}"/>'
        f"{text}</g>\n"
    )


def _colour(name: str) -> str:
    """The same frame has the same warm colour everywhere."""
    value = sum(map(ord, name))
    return f"hsl({15 + value % 40},{60 + value % 25}%,{68 + value % 12}%)"


def as_speedscope(root: Flame) -> dict[str, Any]:
    """The profile in speedscope's sampled form: one profile a process, as :func:`profile` keeps them apart."""
    indices: dict[str, int] = {}
    profiles = []
    for process in root.ordered():
        samples, weights = [], []
        for path, own in _paths(process, ()):
            samples.append([indices.setdefault(name, len(indices)) for name in path])
            weights.append(own)
        profiles.append(
            {
                "type": "sampled", "name": process.name, "unit": "none", "startValue": 0, "endValue": sum(weights),
                "samples": samples, "weights": weights,
            }
        )  # fmt: skip
    return {
        "$schema": _SCHEMA,
        "name": root.name,
        "exporter": "hangtop",
        "shared": {"frames": [{"name": name} for name in indices]},
        "profiles": profiles,
    }


def _paths(frame: Flame, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for child in frame.ordered():
        path = (*above, child.name)
        if child.own:
            yield path, child.own
        yield from _paths(child, path)
