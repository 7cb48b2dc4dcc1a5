"""The trace program as a node runs it, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError
from collectors.formats import kineto
from collectors.probes.trace import fetch
from collectors.probes.trace.remote.program import ListedTrace
from hangtop.session.probes.traces import share

TRACES = Path(__file__).parent.parent.parent / "fixtures" / "traces"


async def test_traces_are_reduced_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "damaged.json").write_text('{"traceEvents": [')
    heard: list[str] = []
    patterns = [str(TRACES / "data_rank?.json.gz"), str(tmp_path / "damaged.json"), str(tmp_path / "none*")]
    listed = await fetch.find(Local("node1"), sys.executable, patterns)
    assert [file.size for file in listed[2:]] == [17, -1]
    found = await fetch.read(Local("node1"), sys.executable, [file.path for file in listed], heard.append)
    here = [kineto.read(str(TRACES / f"data_rank{rank}.json.gz"))._replace(node="node1") for rank in range(2)]
    assert found[:2] == here
    assert [(trace.events, trace.why) for trace in found[2:]] == [
        (0, "it ends before its last event"),
        (0, "No such file or directory"),
    ]
    assert heard[-1] == "node1: 4 of 4 traces read"


def test_a_file_on_shared_storage_is_read_once() -> None:
    shared = [ListedTrace(f"/shared/{rank}.json", 100 - rank, 5) for rank in range(4)]
    own = ListedTrace("/tmp/own.json", 200, 7)
    found = {
        "node1": [*shared, own],
        "node2": shared,
        "node3": [ListedTrace("/shared/*", -1, 0), own._replace(modified=8)],
    }
    assert share(found) == {
        "node1": ["/tmp/own.json", "/shared/3.json"],
        "node2": [f"/shared/{rank}.json" for rank in range(3)],
        "node3": ["/tmp/own.json", "/shared/*"],
    }


async def test_a_node_without_the_interpreter_says_so() -> None:
    with pytest.raises(TransportError, match="node1"):
        await fetch.find(Local("node1"), "/nonexistent/python3", ["/tmp/x"])
