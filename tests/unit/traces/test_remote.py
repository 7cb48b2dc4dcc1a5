"""The trace program as a node runs it, in a process of its own; what stands for dynolog."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError
from collectors.formats import kineto
from collectors.node.processes.owner import ProcessOwner
from collectors.probes.trace import fetch
from collectors.probes.trace.remote import program
from collectors.probes.trace.remote.program import ListedTrace, TraceWay
from collectors.samples.traces import RankTrace
from hangtop.session.probes.traces import share
from tests.support.traces import rank_document

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


@pytest.fixture
def dyno(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A node with dynolog: its daemon listens, and its client writes what it is asked for."""
    client = tmp_path / "dyno"
    client.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n[ -e {tmp_path}/fail ] && echo "no daemon" >&2 && exit 3\n'
        f'cp {tmp_path}/trace "$(echo "$9" | sed s/.json$//)_41.json"\n'
    )
    client.chmod(client.stat().st_mode | stat.S_IEXEC)
    (tmp_path / "trace").write_text(rank_document(0))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(program, "FOLDER", str(tmp_path))
    monkeypatch.setattr(program, "WRITING", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as daemon:
        monkeypatch.setattr(program, "DYNO_PORT", daemon.getsockname()[1])
        yield tmp_path


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[RankTrace]:
    """What is told, and process 41 and 42 are this user's."""
    told: list[RankTrace] = []
    monkeypatch.setattr(program, "say", told.append)
    monkeypatch.setattr(program, "owner_of", lambda _pid: ProcessOwner(os.getuid(), 7, (), 1))
    return told


def test_a_rank_that_registers_with_dynolog_is_asked_by_it(dyno: Path) -> None:
    words = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "KINETO_USE_DAEMON": "1"}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert program.way_to(3, process.pid).why == ""
        (dyno / "dyno").unlink()
        assert "no dyno in its PATH" in program.way_to(3, process.pid).why
        process.kill()
    assert "without KINETO_USE_DAEMON" in program.way_to(3, os.getpid()).why


def test_dynolog_s_traces_are_read_and_taken_away(dyno: Path, traced: list[RankTrace]) -> None:
    program.trace([TraceWay(3, 41, ""), TraceWay(4, 42, "")], 0.1, "ab")
    found = [(trace.rank, round(trace.compute, 6), trace.why) for trace in traced]
    assert found == [(3, 0.36, ""), (4, 0.0, "asked, but it wrote no trace in 0 s")]
    assert (dyno / "asked").read_text().split()[:5] == ["gputrace", "--pids", "41,42", "--process-limit", "2"]
    assert not list(dyno.glob("hangtop-*"))


def test_a_dyno_that_fails_says_why(dyno: Path, traced: list[RankTrace]) -> None:
    (dyno / "fail").touch()
    program.trace([TraceWay(3, 41, "")], 0.1, "ab")
    assert [trace.why for trace in traced] == ["dyno failed: no daemon"]


@pytest.mark.parametrize(
    ("planted", "why"),
    [
        ("link", "no regular file"), ("fifo", "no regular file"), ("another user's", "no file of the rank's"),
        ("nobody knows whose", "whose process it is cannot be told: its trace is not read"),
    ],
)  # fmt: skip
def test_a_file_that_somebody_else_put_there_is_not_read(
    dyno: Path, traced: list[RankTrace], monkeypatch: pytest.MonkeyPatch, planted: str, why: str
) -> None:
    """Where the ranks write, others may write too: what is read as root must be what the rank wrote."""
    where = dyno / "hangtop-ab_41.json"
    make = {"link": lambda: where.symlink_to(dyno / "trace"), "fifo": lambda: os.mkfifo(where)}
    make.get(planted, lambda: where.write_text(rank_document(0)))()
    (dyno / "dyno").write_text("#!/bin/sh\n")
    uid = os.getuid() + (planted == "another user's")
    owner = None if planted == "nobody knows whose" else ProcessOwner(uid, 7, (), 1)
    monkeypatch.setattr(program, "owner_of", lambda _pid: owner)
    program.trace([TraceWay(3, 41, "")], 0.1, "ab")
    assert [(trace.compute, trace.why) for trace in traced] == [(0.0, why)]
