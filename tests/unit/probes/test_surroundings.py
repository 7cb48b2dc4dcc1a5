"""The tools of a node, and iperf3's answer as it prints it."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.local import Local
from collectors.probes.path.around import AROUND, ask
from collectors.probes.path.remote.iperf import parse_client


def answered(said: str) -> None:
    """iperf3's answer has a rate or an error, never both."""
    version, rate, _, error = parse_client(said)
    assert version
    assert rate is None or not error


@given(st.text(max_size=200))
def test_whatever_the_tools_print_is_survived(said: str) -> None:
    answered(said)


async def test_a_node_answers_about_its_tools() -> None:
    answers = await ask(Local("here"), sys.executable, AROUND, {})
    assert ("tool", "iperf3") in {(one.name, one.subject) for one in answers}
