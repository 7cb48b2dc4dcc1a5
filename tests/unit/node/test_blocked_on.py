"""What a blocked call waits for: from real processes of this machine, and from tables of another's."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.node.processes import process_state
from collectors.node.processes.process_state import ProcessState


def seen(code: str, *words: str, until: Callable[[ProcessState], bool], meanwhile: Callable[[], object]) -> bool:
    """Run a program until it is seen as it should be, or for half a minute."""
    with subprocess.Popen([sys.executable, "-S", "-c", code, *words], stdout=subprocess.DEVNULL) as process:
        try:
            meanwhile()
            ends = time.monotonic() + 30
            while (state := process_state.of(process.pid)) is None or not until(state):
                if time.monotonic() > ends:
                    return False
                time.sleep(0.02)
            return True
        finally:
            process.kill()


RECEIVES = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(9)"
POLLS = """import select, socket, sys
s, p = socket.create_connection(('127.0.0.1', int(sys.argv[1]))), select.poll()
p.register(s, select.POLLIN), p.poll()"""


@pytest.mark.parametrize(("code", "calls"), [(RECEIVES, ("recvfrom", "read")), (POLLS, ("poll", "ppoll"))])
def test_a_process_that_waits_for_what_this_one_sends(code: str, calls: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = f"tcp 127.0.0.1:{port}, process {os.getpid()} ("
        accepted: list[socket.socket] = []
        assert seen(
            code,
            str(port),
            until=lambda state: state.waiting_on.startswith(told) and state.syscall in calls,
            meanwhile=lambda: accepted.append(server.accept()[0]),
        )
        accepted[0].close()


def test_a_process_that_waits_for_a_connection() -> None:
    code = "import socket; socket.create_server(('127.0.0.1', 0)).accept()"
    assert seen(
        code,
        until=lambda state: state.waiting_on.startswith("a connection at tcp 127.0.0.1:"),
        meanwhile=lambda: None,
    )


def test_a_process_that_waits_for_a_file_lock(tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    with path.open("w") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        code = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'w'), fcntl.LOCK_EX)"
        told = f"{path}, locked by process {os.getpid()} ({Path('/proc/self/comm').read_text().strip()})"
        assert seen(code, str(path), until=lambda state: state[2:4] == ("flock", told), meanwhile=lambda: None)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sleeps by a length of time before CPython 3.11")
def test_a_process_that_sleeps() -> None:
    def tells(state: ProcessState) -> bool:
        words = state.waiting_on.split()
        return words[:3] + words[4:] == "its clock for s more".split() and 30 <= int(words[3]) <= 90

    assert seen("import time; time.sleep(90)", until=tells, meanwhile=lambda: None)


LISTED = """\
1: POSIX  ADVISORY  WRITE 11 08:01:99 0 EOF
2: FLOCK  ADVISORY  WRITE 12 08:01:1449 0 EOF
2: -> FLOCK  ADVISORY  WRITE 7 08:01:1449 0 EOF
2:  -> FLOCK  ADVISORY  WRITE 8 08:01:1449 0 EOF
3: OFDLCK ADVISORY  WRITE -1 08:01:5 0 EOF
3: -> OFDLCK ADVISORY  WRITE 9 08:01:5 0 EOF
4: FLOCK  ADVISORY  WRITE 13 08:01:1449 0 EOF
4: -> FLOCK  ADVISORY  WRITE 6 08:01:1449 0 EOF
"""


@pytest.mark.parametrize(
    ("pid", "keeper"),
    [
        (7, "process 12 (trainer)"),
        (8, "process 12 (trainer)"),
        (6, "process 13, which is gone"),
        (9, ""),
        (11, ""),
        (12, ""),
    ],
)
def test_the_lock_before_the_arrow_is_the_one_waited_for(tmp_path: Path, pid: int, keeper: str) -> None:
    assert process_state.lock_holder(pid, str(tmp_path)) == ""
    (tmp_path / "locks").write_text(LISTED)
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text("12 (trainer) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10")
    assert process_state.lock_holder(pid, str(tmp_path)) == keeper
