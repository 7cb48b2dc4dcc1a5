"""Programs that a source runs: their output, their end, and the patience that they are given."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from collectors.node.child import Child, find, run
from collectors.node.source import Absent


def test_output_errors_and_status() -> None:
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"], 5.0) == (3, b"out\n", b"err\n")


def test_time_and_bytes_are_bounded() -> None:
    assert run(["sh", "-c", "echo early; exec sleep 60"], 0.2).status is None
    flood = run(["yes"], 5.0, limit=100_000)
    assert flood.status is None
    assert 100_000 < len(flood.stdout) < 2_000_000


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(Absent, match="no-such-program: No such file or directory"):
        run(["no-such-program"], 1.0)


def test_it_dies_with_the_thread_that_started_it() -> None:
    pids: list[int] = []

    def begin() -> None:
        child = Child(["sh", "-c", "echo $$; exec sleep 60"])
        assert child.wait_output(10.0)
        pids.append(int(child.read()[0]))

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join()
    reaped, status = os.waitpid(pids[0], 0)
    assert (reaped, os.WTERMSIG(status)) == (pids[0], 9)


@pytest.mark.skipif(os.geteuid() != 0, reason="what root trusts")
@pytest.mark.parametrize("who", ["owner", "writers", "folder"])
def test_root_takes_no_tool_that_another_user_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    monkeypatch.setattr("collectors.node.child.PLACES", ())
    monkeypatch.setenv("PATH", str(tool.parent))
    assert find("nvidia-smi") == str(tool)
    if who == "owner":
        os.chown(tool, 4242, 0)
    else:
        (tool if who == "writers" else tool.parent).chmod(0o777)
    assert find("nvidia-smi") is None
    with pytest.raises(Absent):
        Child(["nvidia-smi"])
