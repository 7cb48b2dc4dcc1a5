"""Patterns that are compiled when they are used behave as others do."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from collectors.node import late_re


def test_nothing_is_compiled_until_something_is_asked() -> None:
    late = late_re.LatePattern(r"rank (\d+)", 0)
    assert late.pattern == r"rank (\d+)"
    assert "compiled" not in vars(late)
    found = late.search("of rank 17")
    assert found is not None
    assert found[1] == "17"
    assert "compiled" in vars(late)
    assert vars(late)["search"] == late.compiled.search, "asked once, and then at hand"


@given(
    st.text(alphabet="ab1 \n", max_size=30),
    st.sampled_from([0, re.IGNORECASE, re.MULTILINE, re.MULTILINE | re.IGNORECASE]),
)
def test_it_finds_what_re_finds(text: str, flags: int) -> None:
    late, own = late_re.compile(r"^(A)|b(?P<digit>\d)?", flags), re.compile(r"^(A)|b(?P<digit>\d)?", flags)
    assert [found.span() for found in late.finditer(text)] == [found.span() for found in own.finditer(text)]
    assert (late.findall(text), late.sub("x", text)) == (own.findall(text), own.sub("x", text))
    assert (late.flags, late.groups, dict(late.groupindex)) == (own.flags, own.groups, dict(own.groupindex))
