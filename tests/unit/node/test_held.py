"""Files of a process that are kept open."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from collectors.node.processes import held
from collectors.node.processes.held import Held
from collectors.node.processes.procfs import parse_stat


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_is_kept_open_is_read_anew_until_the_process_is_gone() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    kept = Held("/proc", child.pid)
    before = open_files()
    assert parse_stat(kept.read("stat") or b"") is not None
    assert open_files() == before
    kept.keep()
    first = kept.read("status")
    assert open_files() == before + 1
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert b"State:\tZ" in (kept.read("status") or b"")
    assert b"State:\tZ" not in (first or b"")
    child.communicate()
    assert kept.read("status") is None
    assert kept.read("io") is None
    kept.close()
    assert open_files() <= before


def test_only_so_many_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "PROCESSES", Held._processes + 1)
    one, two = Held("/proc", os.getpid()), Held("/proc", os.getpid())
    before = open_files()
    for each in (one, two):
        each.keep()
        assert (each.read("wchan"), each.read("stat")) != (None, None)
    assert open_files() == before + 2
    one.close()
    two.close()
    assert open_files() == before
