"""A drawing that is due lets a key go first, but not for long."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hangtop.session.aside import aside
from tui.running.due import LATER, OFTEN, Due


def test_it_is_put_off_while_a_key_is_on_its_way_and_no_oftener_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def later(seconds: float, again: Callable[[], None]) -> None:
        told.append(f"in {seconds}")
        again()

    due = Due(lambda: told.append("drawn"), later)
    monkeypatch.setattr(aside, "_until", 0.0)
    due()
    assert told == ["drawn"]
    monkeypatch.setattr(aside, "_until", time.monotonic() + 3600.0)
    due()
    assert told == ["drawn", *[f"in {LATER}"] * OFTEN, "drawn"]
    due()
    assert told.count("drawn") == 3
