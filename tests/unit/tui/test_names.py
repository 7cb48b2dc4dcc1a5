"""Names of nodes without what all of them have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.looks.names import ShortNames


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["node1", "node2"], ["node1", "node2"]),
        (["ip-10-0-0-7.eu.internal", "ip-10-0-1-9.eu.internal"], ["ip-10-0-0-7", "ip-10-0-1-9"]),
        (["n1.x.org", "n11.x.org"], ["n1", "n11"]),
        (["n1.a.org", "n1.b.org"], ["n1.a", "n1.b"]),
        (["gpu7.lab.example"], ["gpu7"]),
        (["site-a-rack7-gpu-0012", "site-a-rack8-gpu-0001"], ["…rack7-gpu-0012", "…rack8-gpu-0001"]),
        (["dgx-h100-pod1-0001", "dgx-h100-pod1-0002"], ["…pod1-0001", "…pod1-0002"]),
        (["dgx-h100-pod1-0001", "login"], ["dgx-h100-pod1-0001", "login"]),
        (["a-very-long-name-", "a-very-long-name-2"], ["…name-", "…name-2"]),
        (["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.2"]),
        (["root@10.20.30.41", "root@10.20.30.42"], ["…30.41", "…30.42"]),
        (["fe80::1:2", "fe80::1:3"], ["fe80::1:2", "fe80::1:3"]),
        ([], []),
    ],
)
def test_what_all_names_share_is_left_out(names: list[str], short: list[str]) -> None:
    assert ShortNames(names).all(names) == short


def test_a_name_that_is_none_of_them_stays_as_it_is() -> None:
    assert ShortNames(["a1.lab", "a2.lab"]).of("storage7.dc") == "storage7.dc"


@given(names=st.lists(st.text("ab1-._@:", min_size=1, max_size=40), unique=True, max_size=6))
def test_no_two_names_become_the_same_and_none_becomes_nothing(names: list[str]) -> None:
    short = ShortNames(names).all(names)
    assert len({*short}) == len(names)
    assert all(short)
