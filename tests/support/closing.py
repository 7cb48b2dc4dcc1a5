"""Ends what tests started by way of this machine, before their event loop does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from collectors.fleet.local import Local


@pytest.fixture(autouse=True)
async def locals_are_closed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Close every :class:`Local` of a test: a process that outlives its loop is complained of when Python ends."""
    made: list[Local] = []
    create = Local.__init__

    def created(self: Local, name: str) -> None:
        create(self, name)
        made.append(self)

    monkeypatch.setattr(Local, "__init__", created)
    yield
    for one in made:
        await one.close()
