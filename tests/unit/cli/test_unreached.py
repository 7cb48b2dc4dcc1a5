"""Commands whose nodes cannot be reached say why, in one line a node, and end with 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.cli.connecting import TOLD, NoNode, need_a_node, tell_unreached
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello
from tests.unit.cli.test_main import run


def test_nothing_is_saved_where_no_node_answers(tmp_path: Path) -> None:
    done = run("flame", "--seconds", "1", "--out", str(tmp_path), "--batch", "127.0.0.1:1")
    assert done.returncode == 3
    assert "nothing listens at 127.0.0.1 port 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_node_that_answers_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(SessionOptions())
    for number in range(TOLD + 3):
        session.link(LinkChange(f"node{number}", "lost", "refused", 1000.0))
    with pytest.raises(NoNode):
        need_a_node(session)
    session.link(LinkChange("node0", "live", "", 1000.0))
    session.samples("node0", [hello(1000.0)], 1)
    capsys.readouterr()
    assert not tell_unreached(session)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "hangtop: node1: refused"
    assert told[-1] == "hangtop: and 2 more nodes"
