"""The path probe: its node program, the survey of this machine, what its figures prove, and its lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.network.path import bisect
from collectors.probes import tools
from collectors.probes.pairs import pair_of
from collectors.probes.path import PathSurvey
from collectors.probes.running import NodeAccess
from collectors.samples.probes import PathFigure, ProbeReport
from hangtop.diagnosis.probes import path_findings, report_of
from tests.support import here as machine


@given(st.integers(576, 65535), st.integers(576, 65535))
def test_bisection_finds_the_largest_size_that_arrives(limit: int, upper: int) -> None:
    assert bisect(lambda size: size <= limit, 576, upper) == min(limit, upper)


def here(name: str, python: str = sys.executable) -> NodeAccess:
    return NodeAccess(name, machine.here(name, python=python), "127.0.0.1")


IPERF = """\
#!{python} -S
import json, socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
if "-s" in sys.argv:
    socket.create_server(("127.0.0.1", port)).accept()
else:
    socket.create_connection(("127.0.0.1", port)).close()
    print(json.dumps({answer}))
"""
RATE = {"start": {"version": "iperf 3.12"}, "end": {"sum_received": {"bits_per_second": 8e9}}}


@pytest.mark.parametrize(
    ("answer", "method", "rate"),
    [(RATE, "iperf 3.12", 1e9), ({"error": "it is busy"}, "hangtop (iperf3 failed: it is busy)", None)],
)
async def test_where_both_have_iperf3_the_throughput_is_its_own(
    answer: object, method: str, rate: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "iperf3").write_text(IPERF.format(python=sys.executable, answer=answer))
    (tmp_path / "iperf3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    nodes = [here("a"), here("b")]
    answers = await tools.look(nodes, ["iperf3"])
    survey = PathSurvey(nodes, 0.05, {name for name in answers if tools.found(answers[name])})
    await survey.run()
    assert {one.method for one in survey.figures.values()} == {method}
    assert rate is None or {one.throughput for one in survey.figures.values()} == {rate}


NODES = ("node1", "node2", "node3", "node4")


def figures(**changed: object) -> list[PathFigure]:
    """All directions of four nodes in order; ``changed`` applies to those that touch node3."""
    good = PathFigure("", "", 1e-4, 1e-4, 1500, 1500, "eth0", 1e9, 0.0, "")
    found = []
    for a, b in permutations(NODES, 2):
        figure = good._replace(a=a, b=b)
        found.append(figure._replace(**changed) if "node3" in (a, b) else figure)  # type: ignore[arg-type]
    return found


def report(figures: Sequence[PathFigure], absent: dict[str, str]) -> ProbeReport:
    """The pairs of these directions."""
    by_way = {(one.a, one.b): one for one in figures}
    pairs = []
    for way in sorted({(min(way), max(way)) for way in by_way}):
        both = [one for one in (by_way.get(way), by_way.get((way[1], way[0]))) if one is not None]
        pairs.append(pair_of(*both)._replace(a=way[0], b=way[1]))
    return report_of("path", pairs, {name for way in by_way for name in way}, absent, 0.0, 1.0)


def named(found: list[PathFigure], absent: dict[str, str] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.kind, f.nodes) for f in path_findings(found, report(found, absent or {}))]


def test_good_paths_accuse_nobody() -> None:
    assert named(figures()) == []


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("mtu_mismatch", {"mtu": 1400}),
        ("packet_loss", {"retransmitted": 0.05, "throughput": 1e7}),
        ("bandwidth_low", {"throughput": 5e7}),
        ("path_blocked", {"error": "no answer in 3 s", "throughput": None, "mtu": None}),
    ],
)
def test_the_node_that_all_bad_paths_share_is_named_alone(kind: str, changed: dict[str, object]) -> None:
    assert named(figures(**changed)) == [(kind, ("node3",))]


def test_a_node_that_took_no_part_is_absent() -> None:
    assert named(figures(), {"node9": "no python"}) == [("probe_absent", ("node9",))]
