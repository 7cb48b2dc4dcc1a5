"""Long lists let others go first while somebody goes through them, and are lists all the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.yielding import STRIDE, Paced, giving_way


@given(items=st.lists(st.integers(), max_size=4 * STRIDE))
def test_a_paced_list_gives_what_a_list_gives_and_gives_way(items: list[int]) -> None:
    pauses: list[None] = []
    paced = Paced(items)
    with giving_way(lambda: pauses.append(None)):
        assert [*paced] == items
    assert len(pauses) == -(-len(items) // STRIDE)
    assert paced == items
    assert (len(paced), paced[::3], sorted(paced)) == (len(items), items[::3], sorted(items))
