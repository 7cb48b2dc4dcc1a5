"""The path probe's result: what it says of directions, of names and of the interfaces that would be taken."""

from __future__ import annotations

from typing import Any

from collectors.fleet.local import Local
from collectors.probes.path.around import Around
from collectors.probes.path.survey import PathNode
from collectors.samples.asked import Observation, PathFigure
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.measured.network import path_report
from hangtop.session.probes import Line, ProbeResult, plain
from hangtop.session.probes.path import result

NAMES = ("node1", "node2", "node3")


def figure(a: str, b: str, speed: float | None, **more: Any) -> PathFigure:
    return PathFigure(a, b, 1e-4, 5e-5, 1500, 1500, "eth0", "10.0.0.1", speed, 0.0, "")._replace(**more)


def probed(*figures: PathFigure, answers: dict[str, list[Observation]] | None = None) -> ProbeResult:
    job = Job(0.0, 10.0, True, {name: Node(name) for name in NAMES})
    nodes = [PathNode(name, Local(name), "python3", name) for name in NAMES]
    return result(job, nodes, figures, path_report(figures, {}, 0.0, 1.0), Around(answers or {}))


def shades(lines: tuple[Line, ...], word: str) -> set[str]:
    return {shade for line in lines for text, shade in line if word in text}


def test_directions_are_rows_and_what_is_wrong_with_them_stands_out() -> None:
    lines = probed(
        figure("node1", "node2", 1.25e9, mtu=1400),
        figure("node2", "node1", 1.2e9, retransmitted=0.052, method="iperf 3.12"),
        figure("node1", "node3", None, error="connect: timed out"),
        figure("node2", "node3", 1e9),
    ).lines
    rows = [row.rstrip() for row in plain(lines)]
    assert rows[1].split() == ["node1", "→", "node2", "100", "µs", "50", "µs", "1400", "1.250", "0.00%", "hangtop"]
    assert rows[4].split()[-3:] == ["1.000", "0.00%", "hangtop"]
    assert (shades(lines, "1400"), shades(lines, "5.20%"), shades(lines, "timed out")) == ({"bad"}, {"bad"}, {"bad"})
    assert (shades(lines, " 1500"), shades(lines, "0.00%")) == ({""}, {""})
    assert "iperf 3.12" in "\n".join(rows)


def test_the_square_of_throughputs_and_the_interfaces_follow() -> None:
    found = probed(figure("node1", "node2", 1e9), figure("node2", "node1", 5e8), figure("node1", "node3", 1e9))
    rows = "\n".join(plain(found.lines))
    assert "node1          ▄ 0.50   █ 1.0" in rows
    assert "node2                             NCCL and gloo would take no interface: none fits at node2" in rows
