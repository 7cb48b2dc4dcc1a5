"""When ranks that do the same are unequal: by speeds of single operations, for rules and tables alike."""

from __future__ import annotations

LARGE = 1 << 20
"""Ours, bytes: below it latency rules, and figures jump."""
ENOUGH = 16
"""Ours: operations of one kind that make "steadily"."""
FAR = 2.0
"""Ours: times as much, or as little, as the peers. Waiting for one another makes tens of per cent in a healthy job."""
