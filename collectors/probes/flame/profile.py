"""Folded stacks as a tree: what a screen shows and files are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

DEEPEST = 300
"""Frames of a stack that are kept: further in there is recursion, and nobody scrolls there."""


@dataclass(slots=True)
class Flame:
    """One frame in its place: how many samples were taken in it, and what was further in."""

    name: str
    samples: int = 0
    children: dict[str, Flame] = field(default_factory=dict)

    @property
    def own(self) -> int:
        """Samples in which it was the innermost frame."""
        return self.samples - sum(child.samples for child in self.children.values())

    def ordered(self) -> list[Flame]:
        """What is further in, most samples first."""
        return sorted(self.children.values(), key=lambda child: (-child.samples, child.name))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Flame]]:
        """This frame and all inside of it, with depths, most samples first."""
        yield depth, self
        for child in self.ordered():
            yield from child.walk(depth + 1)

    def add(self, path: Iterable[str], samples: int) -> None:
        """Count a stack, outermost frame first."""
        node = self
        node.samples += samples
        for name in path:
            node = node.children.setdefault(name, Flame(name))
            node.samples += samples


def folded(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Stacks of ``outer;inner 62`` lines; a line that is none is left out."""
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        if path and count.isdecimal() and len(count) < 16:
            yield tuple(path.split(";")), int(count)


def profile(recordings: Iterable[tuple[str, str]], title: str = "all") -> Flame:
    """One tree over several processes, each given as (name, folded stacks) and kept apart at the first level."""
    root = Flame(title)
    for name, text in recordings:
        for path, samples in folded(text):
            root.add((name, *map(short, path[:DEEPEST])), samples)
    return root


def short(frame: str) -> str:
    """A frame with its file's last two folders at most: paths would hide the names."""
    name, opening, place = frame.rpartition(" (")
    if not opening or not place.endswith(")"):
        return frame
    parts = place.split("/")
    return f"{name} ({'/'.join(parts[-3:])}" if len(parts) > 3 else frame
