"""Long lists let others go first while somebody goes through them, and are lists all the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.breath import STRIDE, Paced, breathing


@given(items=st.lists(st.integers(), max_size=4 * STRIDE))
def test_a_paced_list_gives_what_a_list_gives_and_breathes(items: list[int]) -> None:
    breaths: list[None] = []
    paced = Paced(items)
    with breathing(lambda: breaths.append(None)):
        assert [*paced] == items
    assert len(breaths) == -(-len(items) // STRIDE)
    assert paced == items
    assert (len(paced), paced[::3], sorted(paced)) == (len(items), items[::3], sorted(items))
