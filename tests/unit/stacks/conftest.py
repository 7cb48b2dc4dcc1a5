"""Every test here ends what it started on this machine."""

from tests.support.closing import locals_are_closed

__all__ = ["locals_are_closed"]
