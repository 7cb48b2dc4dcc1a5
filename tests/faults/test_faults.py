"""Every fault is struck at the running tool: ``pytest --slow tests/faults`` (an hour)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.faults import endings, limits, network, screen, sshd, stream  # noqa: F401 - each registers its faults
from tests.faults.fault import FAULTS, Fault
from tests.faults.scene import Scene, played, scenes
from tests.support.cluster import missing_rights
from tests.support.tmux import Tmux

nodes = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """The nodes and the job."""
    if reason := missing_rights() or ("tmux is not installed" if Tmux.missing() else ""):
        pytest.skip(reason)
    with scenes() as made:
        yield made


def _parameter(fault: Fault) -> object:
    return pytest.param(fault, id=re.sub(r"\W+", "_", fault.title), marks=nodes)


@pytest.mark.parametrize("fault", map(_parameter, FAULTS.values()))
def test_survived(fault: Fault, scene: Scene) -> None:
    if fault.missing:
        pytest.skip(fault.missing)
    outcome = played(scene, fault.play)
    assert fault.shortcomings(outcome) == [], outcome
