"""The path probe's answer as the lines that command and screen share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collectors.samples.asked import Observation, PathFigure
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.measured import paths
from hangtop.diagnosis.measured.surroundings import Surroundings
from hangtop.session.asking.paths import PathResult
from hangtop.session.probed.path_lines import path_lines
from hangtop.session.probed.shades import Line


def figure(a: str, b: str, speed: float | None, **more: Any) -> PathFigure:
    return PathFigure(a, b, 1e-4, 5e-5, 1500, 1500, "eth0", "10.0.0.1", speed, 0.0, "")._replace(**more)


def result(*figures: PathFigure, told: tuple[Observation, ...] = ()) -> PathResult:
    report = paths.report(figures, {}, 0.0, 1.0)
    seen = Surroundings({"node1": list(told)}, {}, {}, "", 0.0)
    chosen = {"node1": ("eth0", "10.0.0.1"), "node2": ("", "node2")}
    return PathResult(figures, report, seen, chosen, paths.findings(figures, report))


def texts(found: PathResult) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in path_lines(found)]


def shades(lines: list[Line], word: str) -> set[str]:
    return {shade for line in lines for text, shade in line if word in text}


def test_directions_are_rows_and_what_is_wrong_with_them_stands_out() -> None:
    found = result(
        figure("node1", "node2", 1.25e9, mtu=1400),
        figure("node2", "node1", 1.2e9, retransmitted=0.052, method="iperf 3.12"),
        figure("node1", "node3", None, error="connect: timed out"),
        figure("node2", "node3", 1e9),
    )
    rows = texts(found)
    assert rows[1].split() == ["node1", "→", "node2", "100", "µs", "50", "µs", "1400", "1.250", "0.00%", "hangtop"]
    assert rows[4].split()[-3:] == ["1.000", "0.00%", "hangtop"]
    lines = list(path_lines(found))
    assert (shades(lines, "1400"), shades(lines, "5.20%"), shades(lines, "timed out")) == ({"bad"}, {"bad"}, {"bad"})
    assert (shades(lines, " 1500"), shades(lines, "0.00%")) == ({""}, {""})
    assert "iperf 3.12" in "\n".join(rows)


def test_the_square_of_throughputs_and_how_the_nodes_see_each_other_follow() -> None:
    ping = Observation("ping", "10.0.0.2", [5, 3, 0.2], "")
    found = result(
        figure("node1", "node2", 1e9), figure("node2", "node1", 5e8), figure("node1", "node3", 1e9), told=(ping,)
    )
    rows = "\n".join(texts(found))
    assert "node1           ▄ 0.5   █ 1.0" in rows
    assert "node1                             NCCL and gloo would take eth0 at 10.0.0.1" in rows
    assert "node2                             NCCL and gloo would take no interface: none fits at node2" in rows
    assert "node1 → 10.0.0.2                  ping: 3 of 5 came back, 0.2 ms" in rows
    assert shades(list(path_lines(found)), "3 of 5") == {"middling"}


def test_an_answer_that_is_well_says_so_before_what_was_found_beside_it() -> None:
    well = result(figure("node1", "node2", 1e9), figure("node2", "node1", 1e9))
    assert (well.outcome, well.summary) == ("ok", "1 pair, all well")
    names = Finding("name_mismatch", "warning", 0.6, "nodes disagree about vm")
    beside = replace(well, findings=(names,))
    assert (beside.outcome, beside.summary) == ("ok", "1 pair, all well; nodes disagree about vm")
    failed = replace(well, findings=(replace(names, severity="critical"),))
    assert (failed.outcome, failed.summary) == ("failed", "nodes disagree about vm")
