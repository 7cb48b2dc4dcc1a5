"""Who is at the other end of a connection: from real ones on this machine, and from tables of another's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors.node.processes import far_ends, process_state
from collectors.node.processes.socket_tables import sockets

RECEIVES = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(9)"


def test_a_real_process_that_receives_from_this_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", RECEIVES, str(port)]) as waiting:
            try:
                accepted, _ = server.accept()
                told = f"tcp 127.0.0.1:{port}, process {os.getpid()} ("
                ends = time.monotonic() + 20
                while (seen := process_state.of(waiting.pid)) is not None and not seen.waiting_on.startswith(told):
                    assert time.monotonic() < ends, seen
                    time.sleep(0.02)
                assert seen is not None
                assert seen.syscall in ("recvfrom", "read")
            finally:
                waiting.kill()
                accepted.close()


def test_a_real_process_that_waits_for_somebody_to_connect() -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); s.accept()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            told = f"a connection at tcp 127.0.0.1:{int(serving.stdout.readline())}"
            ends = time.monotonic() + 20
            while (seen := process_state.of(serving.pid)) is not None and seen.waiting_on != told:
                assert time.monotonic() < ends, seen
                time.sleep(0.02)
        finally:
            serving.kill()


def table(*rows: tuple[str, str, str, int]) -> bytes:
    lines = (
        f"   {index}: {near} {far} {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0 20 4 30 10 -1"
        for index, (near, far, state, inode) in enumerate(rows)
    )
    return "\n".join(["  sl  local_address rem_address   st", *lines, ""]).encode()


HERE, THERE = "0100007F:9C40", "0100007F:0801"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (((HERE, THERE, "01", 99), (THERE, HERE, "01", 55)), "process 8 (server)"),
        (((HERE, THERE, "01", 99),), ""),  # of another node
        (((HERE, THERE, "01", 99), ("0200007F:0801", HERE, "01", 55)), ""),  # the same ports, another address
        (((HERE, THERE, "02", 99), (THERE, HERE, "01", 55)), ""),  # not connected yet
        (((HERE, THERE, "01", 99), (THERE, HERE, "01", 56)), ""),  # nobody is seen to have it open
    ],
)
def test_the_far_end_in_the_tables(tmp_path: Path, rows: tuple[tuple[str, str, str, int], ...], found: str) -> None:
    for pid, name, inode in ((7, "client", 99), (8, "server", 55)):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "fd" / "3").symlink_to(f"socket:[{inode}]")
        stat = f"{pid} ({name}) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10"
        (tmp_path / str(pid) / "stat").write_text(stat)
    tables = [table(*rows), b""]
    near = next(one for one in sockets(tables) if one.inode == 99)
    assert far_ends.holder(near, tables, 7, str(tmp_path)) == found


@pytest.mark.parametrize(("states", "told"), [("SRS", ", running"), ("SDS", ""), ("", "")])
def test_the_far_end_is_at_work_where_one_of_its_threads_runs(tmp_path: Path, states: str, told: str) -> None:
    for number, state in enumerate(states):
        folder = tmp_path / "8" / "task" / str(8 + number)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(
            f"{8 + number} (server) {state} 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 9 9 9"
        )
    rows = ((HERE, THERE, "01", 99), (THERE, HERE, "01", 55))
    test_the_far_end_in_the_tables(tmp_path, rows, "process 8 (server)" + told)


def test_no_more_descriptors_are_looked_at_than_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_ends, "LINKS", 2)
    test_the_far_end_in_the_tables(tmp_path, ((HERE, THERE, "01", 99), (THERE, HERE, "01", 55)), "process 8 (server)")
    for number in (0, 1, 2):
        (tmp_path / "8" / "fd" / str(number)).symlink_to("/dev/null")
    assert far_ends._owner(55, 7, str(tmp_path)) is None
