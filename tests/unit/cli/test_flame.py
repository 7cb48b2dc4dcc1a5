"""``hangtop flame``: what is printed of a profile, and what is run where."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from collectors.probes.flame import ProfileFiles, profile
from hangtop.cli import flame
from hangtop.session.asking.flames import FlameGraph, flame_commands
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello, process, tick


def graph(stacks: str) -> FlameGraph:
    return FlameGraph(profile([("rank 0 on node1", stacks)]), ProfileFiles(Path("a.svg"), Path("a.json")), {})


def test_the_heaviest_frames_come_first_and_the_smallest_not_at_all() -> None:
    lines = flame.heaviest(graph("main (t.py:1);load (d.py:2) 90\nmain (t.py:1);step (t.py:3) 9\nmain (t.py:1) 1\n"))
    assert lines == [
        "100.0 %    rank 0 on node1",
        "100.0 %      main (t.py:1)",
        " 90.0 %        load (d.py:2)",
        "  9.0 %        step (t.py:3)",
    ]


def test_a_long_tree_is_cut_with_a_word() -> None:
    deep = ";".join(f"f{number} (a.py:1)" for number in range(40))
    lines = flame.heaviest(graph(f"{deep} 5\n"))
    assert (len(lines), lines[-1]) == (flame.SHOWN + 1, "… 17 more lines in the files")


def test_nothing_recorded_prints_nothing() -> None:
    assert flame.heaviest(graph("")) == []


def test_the_commands_are_shown_by_node() -> None:
    session = Session(SessionOptions(), feed=None, clock=lambda: 10.0)
    for node, ranks in (("node1", (0, 1)), ("node2", (2,))):
        session.samples(node, [hello(), *(process(rank) for rank in ranks), tick()], 0)
    commands = flame_commands(session, None, 10)
    assert list(commands) == ["node1", "node2"]
    assert commands["node1"].endswith("--pid 1000 --output (memory)  # and 1 more")
    assert list(flame_commands(session, {2}, 10)) == ["node2"]


def test_wrong_usage() -> None:
    result = CliRunner().invoke(flame.command, ["node1", "--rank", "x"])
    assert result.exit_code == 2
