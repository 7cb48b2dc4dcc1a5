"""A port that is free on every node: no socket has it, and no client gets it meanwhile."""

from __future__ import annotations

import socket
import sys

from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.local import Local
from collectors.probes.repair import ask
from collectors.probes.repair.free import choose
from collectors.probes.repair.remote.words import PortsInUse


def node(*used: int, low: int = 32768, high: int = 60999, reserved: str = "", error: str = "") -> PortsInUse:
    return PortsInUse(low, high, reserved, list(used), error)


def test_a_port_that_any_node_uses_is_passed_over() -> None:
    found = choose({"a": node(29500), "b": node(29501), "c": node()})
    assert (found.port, found.outside) == (29502, True)
    assert found.passed == ("29500: in use on a", "29501: in use on b")


def test_ports_of_clients_are_avoided_where_that_can_be() -> None:
    wide = node(low=20000, high=61999)
    assert choose({"a": node(), "b": wide}).port == 62000
    everything = node(29500, low=1, high=65535)
    found = choose({"a": everything})
    assert (found.port, found.outside) == (29501, False)
    assert choose({"a": node(low=20000, high=61999, reserved="29510-29512")}).port == 29510


@given(st.sets(st.integers(29490, 29700)), st.integers(1024, 65535), st.integers(0, 65535), st.integers(0, 65535))
def test_what_is_chosen_is_free_and_said_to_be_what_it_is(used: set[int], wanted: int, low: int, high: int) -> None:
    found = choose({"a": node(*used, low=low, high=high), "b": node(wanted)}, wanted)
    assert found.port is not None
    assert found.port not in used | {wanted}
    assert found.outside == (not low <= found.port <= high and not 32768 <= found.port <= 60999)


async def test_a_node_tells_its_sockets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = await ask.ports_in_use(Local("here"), sys.executable)
        assert port in found.ports
    assert found.lowest < found.highest
    assert found.error == ""
