"""Every fault of the registry is struck at the running tool: ``pytest --slow tests/faults`` (an hour)."""

from __future__ import annotations

import re

import pytest

from tests.faults.fault import Fault, Outcome
from tests.faults.registry import faults
from tests.faults.scene import Scene, played

nodes = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]


def _parameter(fault: Fault) -> object:
    return pytest.param(fault, id=re.sub(r"\W+", "_", fault.title), marks=nodes)


@pytest.mark.parametrize("fault", map(_parameter, faults().values()))
def test_survived(fault: Fault, scene: Scene) -> None:
    if fault.missing:
        pytest.skip(fault.missing)
    outcome = played(scene, fault.play)
    assert fault.shortcomings(outcome) == [], outcome


def test_an_outcome_that_is_not_as_it_must_be_is_found() -> None:
    fault = Fault("family", "name", "no answer", lambda _: Outcome(""), recovers=True)
    well = Outcome("lost: no answer for 8 s", after=8.0, recovered=1.0)
    assert fault.shortcomings(well) == []
    bad = Outcome("live", grown=900.0, key=40.0, left=("node2: nvidia-smi",), disturbed=("node1 lost",))
    assert [found.split()[0] for found in fault.shortcomings(bad)] == ["said", "did", "memory", "a", "left", "another"]
