"""Since when the job stands still, by what its ranks were seen to do: looks from before that say nothing about it."""

from __future__ import annotations

from statistics import median

from tui.scene import Scene

ASKED = 256
"""Ranks whose past is read, spread evenly: of a job that stands still they have all stopped."""


def stood_since(scene: Scene) -> float | None:
    """When the last of at least half of the ranks stopped; None while more of them move."""
    history, rows = scene.timeline.head.history, scene.ranks
    found: list[float] = []
    asked = rows[:: len(rows) // ASKED + 1]
    for row in asked:
        lanes = history.ranks.find(row.node.name, row.rank.process.pid)
        stopped = None if lanes is None else lanes.stopped(scene.now)
        if stopped is not None:
            found.append(stopped)
    return median(found) if found and 2 * len(found) >= len(asked) else None
