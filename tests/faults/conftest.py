"""Faults are struck where root may make namespaces, at one set of nodes for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.scene import Scene, scenes
from tests.support.cluster import missing_rights
from tests.support.tmux import Tmux


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """The nodes and the job."""
    if reason := missing_rights() or ("tmux is not installed" if Tmux.missing() else ""):
        pytest.skip(reason)
    with scenes() as made:
        yield made
