"""Where faults are struck: ``pytest --slow tests/faults`` (half an hour)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.scene import Scene, launched
from tests.support.cluster import missing_rights
from tests.support.faulty import nurseries
from tests.support.tmux import Tmux


@pytest.fixture(scope="session")
def nodes() -> Iterator[Scene]:
    """Three nodes with one job, a rank each."""
    if reason := missing_rights() or ("tmux is not installed" if Tmux.missing() else ""):
        pytest.skip(reason)
    with nurseries(3) as nursery:
        folder = nursery.cluster.root / "faults"
        folder.mkdir()
        yield Scene(nursery, folder, launched(nursery))


@pytest.fixture
def scene(nodes: Scene) -> Iterator[Scene]:
    """The nodes; what a fault did to them is undone, and the job runs again."""
    with nodes.undo:
        yield nodes
    nodes.revive()
