"""How sure a finding is, in a number: what counts bear out, and never that something is certain."""

from __future__ import annotations

from typing import get_args

import pytest

from hangtop.diagnosis.certainty import CONFIDENCE, Certainty, succession
from hangtop.diagnosis.tables.borne_out import RIGHT_OF


@pytest.mark.parametrize(("right", "of", "number"), [(0, 0, 0.5), (8, 8, 0.9), (0, 8, 0.1), (26, 47, 27 / 49)])
def test_the_rule_of_succession(right: int, of: int, number: float) -> None:
    assert succession(right, of) == pytest.approx(number)


def test_every_word_has_a_number_that_its_counts_bear_out() -> None:
    assert list(CONFIDENCE) == list(RIGHT_OF) == list(get_args(Certainty))
    for word in get_args(Certainty):
        right, of = RIGHT_OF[word]
        assert 0 <= right <= of
        assert 0.0 < CONFIDENCE[word] <= succession(right, of) < 1.0
