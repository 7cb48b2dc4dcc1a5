"""The surveys over a real transport (this machine's), from here to the node's program and back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError
from collectors.probes.gather import gather
from collectors.probes.path.survey import PathNode
from collectors.probes.path.survey import survey as path_survey
from collectors.probes.recorder.fetch import fetch


async def test_paths_are_measured_both_ways() -> None:
    nodes = [PathNode(name, Local(name), sys.executable, "127.0.0.1") for name in ("a", "b")]
    figures, absent = await path_survey(nodes, seconds=0.05)
    assert absent == {}
    assert [(figure.a, figure.b, figure.error) for figure in figures] == [("a", "b", ""), ("b", "a", "")]


async def test_a_node_whose_interpreter_is_missing_is_absent_and_spoils_nothing() -> None:
    nodes = [
        PathNode("a", Local("a"), sys.executable, "127.0.0.1"),
        PathNode("b", Local("b"), "/no/python", "127.0.0.1"),
    ]
    figures, absent = await path_survey(nodes, seconds=0.05)
    assert figures == []
    assert "b" in absent["b"]


async def test_a_rank_without_a_dump_is_told() -> None:
    (dump,) = await fetch(Local("here"), sys.executable, [(3, 1 << 30, 0.0)], fresh=False)
    assert (dump.node, dump.rank, dump.data) == ("here", 3, b"")
    assert "may not be read" in dump.why


async def test_a_program_that_ends_early_says_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    with pytest.raises(TransportError, match="here: no such thing"):
        await gather(Local("here"), command, b"", lambda _: False, 10.0)
