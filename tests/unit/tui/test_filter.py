"""The filter language: what matches, what is refused and how, and that nothing typed can break it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.ordering.filter import FilterError, Value, parse

Row = dict[str, Value]

ROWS: list[Row] = [
    {"rank": 3, "node": "gpu001", "state": "S", "gpu.util": 5, "rss": 3.0 * 2**30, "cmd": "train.py [/markup]"},
    {"rank": 8, "node": "gpu010", "state": "R", "gpu.util": 97, "rss": 1.0 * 2**20, "cmd": "data loader"},
    {"rank": 12, "node": "cpu1", "state": None, "gpu.util": None, "rss": None, "cmd": ""},
]
FIELDS = {name: (lambda row, name=name: row[name]) for name in ROWS[0]}


def ranks(text: str) -> list[Value]:
    test = parse(text).bind(FIELDS, lambda row: " ".join(str(value) for value in row.values() if value is not None))
    return [row["rank"] for row in ROWS if test(row)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [3, 8, 12]),
        ("rank=3,7-9", [3, 8]),
        ("RANK>=8", [8, 12]),
        ("gpu.util<10", [3]),
        ("gpu.util>=97%", [8]),
        ("node~gpu0", [3, 8]),
        ("node=gpu0*", [3, 8]),
        ("node=gpu001,cpu1", [3, 12]),
        ("!state=S", [8, 12]),
        ("state=r,s", [3, 8]),
        ("rss>2G", [3]),
        ("rss<=1M", [8]),
        ("[/markup]", [3]),
        ("cmd=*[/markup]", [3]),
        ("LOADER gpu0", [8]),
        ("!loader", [3, 12]),
        ("rank=3 state=R", []),
    ],
)
def test_rows_that_match(text: str, expected: list[Value]) -> None:
    assert ranks(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour=red", "no field “colour” here; there are cmd, gpu.util"),
        ("rank=", "lacks a value"),
        ("rank<abc", "needs a number"),
        ("!", "needs a term"),
        ("rank=,", "lists nothing"),
    ],
)
def test_what_is_refused_and_why(text: str, says: str) -> None:
    with pytest.raises(FilterError, match=None) as caught:
        ranks(text)
    assert says in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from(list('rank=3,-9<>!~"? gpu.utl*[]()node+\\^µ·\t🙂')), max_size=24))
def test_whatever_is_typed_is_understood_or_refused_with_a_reason(text: str) -> None:
    try:
        found, said = ranks(text), "understood"
    except FilterError as error:
        found, said = [], str(error)
    assert set(found) <= {3, 8, 12}
    assert said
