"""A short, always equal run of the fuzzer over everything that reads remote bytes, and what it ever found."""

import random
from pathlib import Path

import pytest

from tests.support.fuzz_targets import targets
from tests.support.fuzzing import FOUND, failure, mutated

INPUTS = 250
TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_are_survived(name: str) -> None:
    rng = random.Random(name)
    target = TARGETS[name]
    for _ in range(INPUTS):
        assert failure(name, target, mutated(rng, target)) is None


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed_is_survived(path: Path) -> None:
    assert failure(path.parent.name, TARGETS[path.parent.name], path.read_bytes()) is None
