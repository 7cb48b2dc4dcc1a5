"""What goes down the control line is read as it was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.control import control_line
from collectors.node.wire import decode_control
from collectors.samples.control import Beat, Lent, Settings


@given(st.integers(0, 2**63))
def test_a_heartbeat_is_read_as_it_was_sent(seq: int) -> None:
    line = control_line(Beat(seq))
    assert decode_control(line) == Beat(seq)
    assert line.index(b"\n") == len(line) - 1


@pytest.mark.parametrize(
    "said", [Settings(0.5, 0.25, ["HX", "1"], ["/logs/é*.log"], ["/logs/\udc80"], []), Lent("py-spy", "A" * 1000)]
)
def test_so_is_all_else(said: Settings | Lent) -> None:
    line = control_line(said)
    assert decode_control(line) == said
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1
