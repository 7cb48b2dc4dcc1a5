"""Painted lines leave nothing behind, and are cut as any other."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from rich.segment import Segment
from textual.strip import Strip

from tui.widgets.once import once


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_a_line_that_was_handed_over_whole_is_gone_with_its_last_user() -> None:
    line = once(Strip([Segment("abcdef")], 6))
    assert list(line.divide([6])) == [line]
    watched = weakref.ref(line)
    del line
    assert watched() is None


def test_it_is_cut_like_any_other() -> None:
    plain = Strip([Segment("abc"), Segment("def")], 6)
    for cuts in ([2, 6], [3], [1, 4, 6], [6, 9], []):
        assert [part.text for part in once(plain).divide(cuts)] == [part.text for part in plain.divide(cuts)]
