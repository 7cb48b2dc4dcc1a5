"""The path probe: its node program against itself, its bisection, and what its figures prove."""

from __future__ import annotations

import json
import subprocess
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet import payload
from collectors.node.network.path import bisect
from collectors.samples.asked import PathFigure
from hangtop.diagnosis.measured.network import path_findings, path_report


@given(st.integers(576, 65535), st.integers(576, 65535))
def test_bisection_finds_the_largest_size_that_arrives(limit: int, upper: int) -> None:
    assert bisect(lambda size: size <= limit, 576, upper) == min(limit, upper)


def start(arguments: dict[str, object]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(payload.command("python3"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(payload.pack("collectors.node.network.path", arguments))
    process.stdin.flush()
    return process


def test_a_tester_measures_a_listener_over_loopback() -> None:
    listener = start({"listen": True, "lifetime": 20})
    assert listener.stdin is not None
    assert listener.stdout is not None
    ports = dict(json.loads(listener.stdout.readline())[1][1:3] for _ in range(2))
    target = {"name": "b", "host": "127.0.0.1", **ports}
    closed = {"name": "c", "host": "127.0.0.1", "tcp": 1, "udp": 1}
    tester = start({"name": "a", "targets": [target, closed], "seconds": 0.1, "lifetime": 20})
    assert tester.stdin is not None
    assert tester.stdout is not None
    good, bad = (PathFigure(*json.loads(tester.stdout.readline())[1]) for _ in range(2))
    for process in (tester, listener):
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0
    assert (good.a, good.b, good.error) == ("a", "b", "")
    assert (good.interface, good.source) == ("lo", "127.0.0.1")
    assert good.mtu is not None
    assert good.mtu > 1500
    assert good.throughput is not None
    assert good.throughput > 0
    assert good.round_trip is not None
    assert bad.error
    assert bad.throughput is None


NODES = ("node1", "node2", "node3", "node4")


def figures(**changed: object) -> list[PathFigure]:
    """All directions of four nodes in order; ``changed`` applies to those that touch node3."""
    good = PathFigure("", "", 1e-4, 1e-4, 1500, 1500, "eth0", "10.0.0.1", 1e9, 0.0, "")
    found = []
    for a, b in permutations(NODES, 2):
        figure = good._replace(a=a, b=b)
        found.append(figure._replace(**changed) if "node3" in (a, b) else figure)  # type: ignore[arg-type]
    return found


def named(found: list[PathFigure], absent: dict[str, str] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.kind, f.nodes) for f in path_findings(found, path_report(found, absent or {}, 0.0, 1.0))]


def test_good_paths_accuse_nobody() -> None:
    assert named(figures()) == []


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("mtu_mismatch", {"mtu": 1400}),
        ("packet_loss", {"retransmitted": 0.05, "throughput": 1e7}),
        ("slow_node", {"throughput": 5e7}),
        ("path_blocked", {"error": "no answer in 3 s", "throughput": None, "mtu": None}),
    ],
)
def test_the_node_that_all_bad_paths_share_is_named_alone(kind: str, changed: dict[str, object]) -> None:
    assert named(figures(**changed)) == [(kind, ("node3",))]


def test_a_node_that_took_no_part_is_absent() -> None:
    assert named(figures(), {"node9": "no python"}) == [("probe_absent", ("node9",))]
