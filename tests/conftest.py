"""For all tests: what a loaded machine takes longer for is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("hangtop", deadline=None)
settings.load_profile("hangtop")
