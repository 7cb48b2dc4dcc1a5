"""How nodes see each other: names that differ, routes that come back another way, ping and iperf3 as they print."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.local import Local
from collectors.probes.path.around import AROUND, ask, with_iperf
from collectors.probes.path.remote.around import hosts, parse_ping, parse_route
from collectors.probes.path.remote.iperf import parse_client
from collectors.samples.asked import Observation, PathFigure
from hangtop.diagnosis.measured.surroundings import Surroundings, findings, routes

ADDRESSES = {f"node{n}": f"10.0.0.{n}" for n in (1, 2, 3)}


def seen(
    names: dict[tuple[str, str], list[str]] | None = None,
    ways: dict[tuple[str, str], tuple[str, str, str]] | None = None,
    master: str = "",
) -> Surroundings:
    """Three nodes that agree, but for what is given by (node, name) and (from, to)."""
    answers: dict[str, list[Observation]] = {}
    for node, address in ADDRESSES.items():
        told = answers[node] = [Observation("own_name", node, True, "")]
        for name, right in ADDRESSES.items():
            found = (names or {}).get((node, name), [right])
            told.append(Observation("resolve", name, [0.01, *found], "" if found else "Name or service not known"))
        for other, right in ADDRESSES.items():
            way = (ways or {}).get((node, other), ("eth0", "", address))
            told.append(Observation("route", right, list(way), ""))
    held = {node: frozenset((address, "127.0.0.1")) for node, address in ADDRESSES.items()}
    return Surroundings(answers, ADDRESSES, held, master)


def told(found: Surroundings) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(f.kind, f.severity, f.nodes) for f in findings(found)]


def test_nodes_that_agree_accuse_nobody() -> None:
    assert told(seen(master="node1")) == []


def test_a_peer_that_is_taken_for_oneself() -> None:
    loop = {("node3", "node1"): ["127.0.1.1"]}
    assert told(seen(loop)) == [("name_mismatch", "warning", ("node3",))]
    assert told(seen(loop, master="node1")) == [("name_mismatch", "critical", ("node3",))]
    (finding,) = findings(seen(loop))
    assert "node3 takes it for itself (127.0.1.1)" in finding.summary


def test_an_old_address_is_told_from_the_right_one() -> None:
    (finding,) = findings(seen({("node2", "node3"): ["10.9.9.9"]}))
    assert finding.nodes == ("node2",)
    assert "resolves it to 10.9.9.9, not 10.0.0.3" in finding.summary


def test_a_name_that_one_node_does_not_know() -> None:
    assert told(seen({("node2", "node3"): []})) == [("name_mismatch", "warning", ("node2",))]
    nobody: dict[tuple[str, str], list[str]] = {(node, "node3"): [] for node in ("node1", "node2")}
    assert told(seen(nobody)) == []
    assert told(seen(nobody, master="node3")) == [("name_mismatch", "critical", ("node1", "node2"))]


def test_a_node_that_knows_itself_by_loopback_alone() -> None:
    (finding,) = findings(seen({("node2", "node2"): ["127.0.1.1"]}))
    assert (finding.nodes, finding.severity) == (("node2",), "warning")
    assert "gloo without GLOO_SOCKET_IFNAME" in finding.summary


def test_a_way_back_by_another_interface() -> None:
    crooked = {("node2", "node1"): ("eth1", "", "192.168.7.2")}
    assert told(seen(ways=crooked)) == [("asymmetric_route", "warning", ("node1", "node2"))]
    gateway = {("node2", other): ("eth0", "10.0.0.254", "10.0.0.2") for other in ("node1", "node3")}
    assert told(seen(ways=gateway)) == [("asymmetric_route", "warning", ("node2",))]
    unknown = {("node2", "node1"): ("eth0", "?", "10.0.0.2")}
    assert told(seen(ways=unknown)) == []
    assert [route.why for route in routes(seen())] == ["", "", ""]


@pytest.mark.parametrize(
    ("said", "route"),
    [
        ("10.0.0.1 via 192.0.2.1 dev eth0 src 192.0.2.2 uid 0 \\    cache ", ("eth0", "192.0.2.1", "192.0.2.2")),
        ("10.0.0.2 dev ib0 src 10.0.0.1 uid 1000 \\    cache mtu 2044 ", ("ib0", "", "10.0.0.1")),
        ("local 127.0.0.1 dev lo src 127.0.0.1 uid 0 \\    cache <local> ", ("lo", "", "127.0.0.1")),
        ("", ("", "", "")),
    ],
)
def test_routes_as_ip_prints_them(said: str, route: tuple[str, str, str]) -> None:
    assert parse_route(said) == route


IPUTILS = """\
PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.

--- 10.0.0.2 ping statistics ---
5 packets transmitted, 4 received, 20% packet loss, time 4091ms
rtt min/avg/max/mdev = 0.031/0.036/0.041/0.004 ms
"""
BUSYBOX = """\
5 packets transmitted, 5 packets received, 0% packet loss
round-trip min/avg/max = 0.050/0.060/0.070 ms
"""


def test_pings_summaries() -> None:
    assert parse_ping(IPUTILS) == (5, 4, 0.036)
    assert parse_ping(BUSYBOX) == (5, 5, 0.06)
    assert parse_ping("5 packets transmitted, 0 received, 100% packet loss") == (5, 0, None)
    assert parse_ping("ping: socket: Operation not permitted") is None


def answered(said: str) -> None:
    """iperf3's answer has a rate or an error, never both."""
    version, rate, _, error = parse_client(said)
    assert version
    assert rate is None or not error


@given(st.text(max_size=200))
def test_whatever_the_tools_print_is_survived(said: str) -> None:
    parse_route(said)
    parse_ping(said)
    answered(said)


KEYS = st.sampled_from(["start", "end", "error", "sum_received", "bits_per_second", "version"])
PLAIN = st.none() | st.booleans() | st.floats() | st.text(max_size=5)


@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=12))
def test_whatever_json_iperf3_answers_is_survived(document: object) -> None:
    answered(json.dumps(document))


def test_lines_of_etc_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n127.0.1.1 node1 # debian\n10.0.0.1 node1.lan node1\n# 9.9.9.9 node1\n")
    (line,) = hosts(["node1", "node2"], str(path))
    assert (line.subject, line.value) == ("node1", ["127.0.1.1 (line 2)", "10.0.0.1 (line 3)"])


FAKE_IPERF = """\
#!{python} -S
import json, socket, sys
words = sys.argv[1:]
port = int(words[words.index("-p") + 1])
if "-s" in words:
    with socket.create_server(("127.0.0.1", port)) as server:
        server.accept()[0].recv(1)
elif {broken}:
    print(json.dumps({{"start": {{"version": "iperf 3.12"}}, "error": "unable to connect to server: refused"}}))
    sys.exit(1)
else:
    socket.create_connection((words[words.index("-c") + 1], port)).sendall(b"x")
    sums = {{"sum_sent": {{"retransmits": 3}}, "sum_received": {{"bits_per_second": 8e9}}}}
    print(json.dumps({{"start": {{"version": "iperf 3.12"}}, "end": sums}}))
"""
FIGURE = PathFigure("a", "b", 1e-4, 1e-4, 1500, 1500, "eth0", "10.0.0.1", 5e8, 0.0, "")


@pytest.mark.parametrize("broken", [False, True])
async def test_iperf3s_figure_and_its_source_or_ours_and_why(
    broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "iperf3"
    tool.write_text(FAKE_IPERF.format(python=sys.executable, broken=broken))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    here = Local("here"), sys.executable
    figure = await with_iperf(FIGURE, here, here, "127.0.0.1", 0.1)
    if broken:
        assert figure.throughput == 5e8
        assert figure.method == "hangtop (iperf3 failed: unable to connect to server: refused)"
    else:
        assert (figure.throughput, figure.method) == (1e9, "iperf 3.12")


async def test_a_node_answers_about_names_routes_and_tools() -> None:
    answers = await ask(Local("here"), sys.executable, AROUND, {"names": ["localhost"], "addresses": ["127.0.0.1"]})
    found = {(one.name, one.subject): one for one in answers}
    resolved = found["resolve", "localhost"].value
    assert isinstance(resolved, list)
    assert "127.0.0.1" in resolved or "::1" in resolved
    route = found["route", "127.0.0.1"].value
    assert isinstance(route, list)
    assert (route[0], route[2]) == ("lo", "127.0.0.1")
    assert {"ip", "ping", "iperf3"} == {subject for name, subject in found if name == "tool"}
