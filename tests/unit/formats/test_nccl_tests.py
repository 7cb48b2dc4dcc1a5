"""nccl-tests' table, in the formats of several versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.nccl_tests import parse

NEW = """\
# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 536870912 step: 2(factor) warmup iters: 2 iters: 10 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid  65234 on      gpu49 device  0 [0x0a] NVIDIA H200
#  Rank  1 Group  0 Pid  65234 on      gpu49 device  1 [0x18] NVIDIA H200
gpu49:65234:65234 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    36.50   28.73   28.73      0    35.10   29.87   29.87      3
   536870912     134217728     float     sum      -1   1611.2  333.21  333.21      0   1610.9  333.27  333.27      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 181.27
#
"""
OLD = """\
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456   float     sum   8142.6  131.87  230.77  2e-07   8141.2  131.89  230.81  2e-07
"""
GATHER = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     8388608        262144     float    none      -1    52.10  161.01  140.88    N/A    51.80  161.94  141.70    N/A
"""


def told(text: str) -> list[tuple[int, float, float, float, int | None]]:
    """Rows with microseconds, rounded as printed."""
    return [(row.size, round(row.seconds * 1e6, 2), row.algbw, row.busbw, row.wrong) for row in parse(text).rows]


def test_the_table_of_today() -> None:
    assert told(NEW) == [(1 << 20, 36.5, 28.73, 28.73, 3), (512 << 20, 1611.2, 333.21, 333.21, 0)]
    assert parse(NEW)[1:] == (2, 181.27, "2.17.1")


def test_the_table_before_wrong_elements_were_counted() -> None:
    assert told(OLD) == [(1 << 30, 8142.6, 131.87, 230.77, None)]


def test_what_was_not_checked_is_unknown() -> None:
    assert told(GATHER) == [(8 << 20, 52.1, 161.01, 140.88, None)]


def test_a_run_that_was_cut_off() -> None:
    assert [row.size for row in parse(NEW[: NEW.index("  333.27")]).rows] == [1 << 20]


@given(st.text())
def test_any_text_is_read_and_no_line_makes_more_than_one_row(text: str) -> None:
    assert len(parse(text).rows) <= len(text.splitlines())


@given(st.text(alphabet="0123456789.eE+-# \n\tnaNif/A", max_size=400), st.integers(0, len(NEW)))
def test_no_text_in_between_breaks_it(text: str, at: int) -> None:
    for row in parse(NEW[:at] + text + NEW[at:]).rows:
        assert row.seconds >= 0
        assert row.busbw >= 0
        assert row.wrong is None or row.wrong >= 0


@given(st.lists(st.tuples(st.integers(1, 1 << 40), st.floats(0.01, 1e7), st.floats(0, 9999)), max_size=20))
def test_rows_come_back_as_printed(rows: list[tuple[int, float, float]]) -> None:
    def printed(size: int, time: float, speed: float) -> str:
        half = f"  {time:>7.2f}  {speed:>6.2f}  {speed:>6.2f}  {0:>5}"
        return f"{size:>12}  {size // 4:>12}  {'float':>8}  {'sum':>6}  {-1:>6}{half}{half}\n"

    found = told("".join(printed(*row) for row in rows))
    assert [row[0] for row in found] == [size for size, _, _ in rows]
    assert [row[1] for row in found] == pytest.approx([time for _, time, _ in rows], abs=0.02)
    assert [row[3] for row in found] == pytest.approx([speed for _, _, speed in rows], abs=0.01)
