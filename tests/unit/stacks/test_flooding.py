"""A py-spy that does not stop talking or writing: what it says of a process is that process's to make up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.node.stacks.flamerecord import LIMIT
from collectors.probes.flame import record
from collectors.probes.stacks import DumpRequest, dump


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a py-spy before all others."""
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "deadline", "said"),
    [
        ("exec yes", 50.0, "py-spy says more than 32 MB of it"),
        ("while :; do echo x; sleep 0.05; done", 1.0, "timeout: py-spy did not come back"),
    ],
)
async def test_one_that_says_too_much_or_for_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, deadline: float, said: str
) -> None:
    install(tmp_path, monkeypatch, script)
    (found,) = await dump(Local("node1"), [os.getpid()], DumpRequest(deadline=deadline), python=sys.executable)
    assert found.threads == []
    assert said in found.error


async def test_one_that_writes_too_much_into_our_memory_is_stopped_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'for last; do :; done\nyes "main (t.py:1);work (t.py:2) 1" > "$last"'  # --output comes last
    install(tmp_path, monkeypatch, script)
    (found,) = await record(Local("node1"), sys.executable, [os.getpid()], seconds=3.0)
    assert found.error == "cut: only the first 16 MB of its stacks"
    assert LIMIT - 100 < len(found.stacks) <= LIMIT
    assert found.stacks.endswith(" 1\n"), "no line is cut"
