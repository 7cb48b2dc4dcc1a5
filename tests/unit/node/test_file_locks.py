"""Who keeps a file locked: from lists like the kernel's, and from a real lock."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.processes import file_locks, process_state

LISTED = """\
1: POSIX  ADVISORY  WRITE 11 08:01:99 0 EOF
2: FLOCK  ADVISORY  WRITE 12 08:01:1449 0 EOF
2: -> FLOCK  ADVISORY  WRITE 7 08:01:1449 0 EOF
2:  -> FLOCK  ADVISORY  WRITE 8 08:01:1449 0 EOF
3: OFDLCK ADVISORY  WRITE -1 08:01:5 0 EOF
3: -> OFDLCK ADVISORY  WRITE 9 08:01:5 0 EOF
"""


@pytest.mark.parametrize(
    ("pid", "kept_by"), [(7, "process 12 (trainer)"), (8, "process 12 (trainer)"), (9, ""), (11, ""), (12, "")]
)
def test_the_lock_before_the_arrow_is_the_one_waited_for(tmp_path: Path, pid: int, kept_by: str) -> None:
    (tmp_path / "locks").write_text(LISTED)
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text("12 (trainer) S 1 12 12 0 -1 0 1 0 0 0 2 5 0 0 20 0 1 0 100 1000 10")
    assert file_locks.holder(pid, str(tmp_path)) == kept_by


def test_one_that_has_ended_since_is_said_to_be_gone(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text(LISTED)
    assert file_locks.holder(7, str(tmp_path)) == "process 12, which is gone"


def test_a_list_that_cannot_be_read_names_nobody(tmp_path: Path) -> None:
    assert file_locks.holder(7, str(tmp_path)) == ""


@given(st.text("0123: ->\nFLOCKADVISORY -x", max_size=300), st.integers(0, 40))
def test_any_text_is_read(listed: str, pid: int) -> None:
    kept = file_locks._holder(listed, pid)
    assert kept is None or kept > 0


def test_a_real_lock_names_the_process_that_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    with path.open("w") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        waits = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'w'), fcntl.LOCK_EX)"
        with subprocess.Popen([sys.executable, "-c", waits, str(path)]) as waiting:
            try:
                for _ in range(200):
                    seen = process_state.of(waiting.pid)
                    if seen is not None and seen.syscall == "flock":
                        break
                    time.sleep(0.05)
                assert seen is not None
                assert seen.waiting_on == f"{path}, locked by {_me()}"
            finally:
                waiting.kill()


def _me() -> str:
    pid = Path("/proc/self").resolve().name
    return f"process {pid} ({Path('/proc/self/comm').read_text().strip()})"
