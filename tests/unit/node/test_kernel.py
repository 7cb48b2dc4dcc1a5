"""The kernel's log through each of its doors, and what becomes of its lines."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from collectors.node.machine import kernel
from collectors.node.machine.kernel import KernelSource, parse_kmsg
from collectors.node.source import Denied, Shared
from collectors.samples.stream import Settings

XID = "NVRM: Xid (PCI:0000:5f:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
OOM = "Out of memory: Killed process 815 (python3) total-vm:1kB, anon-rss:1024kB, file-rss:0kB"


def test_records_of_kmsg() -> None:
    record = b"3,1234,98765432,-;NVRM: Xid (PCI:0000:5f:00): 79, x\n SUBSYSTEM=pci\n DEVICE=+pci:0000:5f:00.0\n"
    assert parse_kmsg(record) == (98.765432, "NVRM: Xid (PCI:0000:5f:00): 79, x")
    assert parse_kmsg(b"6,1,5,c,caller=T1;hello; world") == (5e-06, "hello; world")
    assert parse_kmsg(b"nonsense") is None


def test_lines_that_matter_become_events_with_the_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel stamps drift from the wall clock: a line that comes while the log is watched has the time of now."""
    up = time.monotonic()
    nothing_yet, overwritten_unread = None, errno.EPIPE
    records: list[tuple[float, str] | int | None] = [
        (up - 60, "usb 1-1: new device"), (up - 50, XID), overwritten_unread, (up - 2, OOM), (up - 90_000, XID),
        nothing_yet, (up - 70, XID),
    ]  # fmt: skip

    def read(_descriptor: int, _size: int) -> bytes:
        record = records.pop(0) if records else None
        if record is None:
            raise BlockingIOError
        if isinstance(record, int):
            raise OSError(record, os.strerror(record))
        return b"3,1,%d,-;%b\n" % (int(record[0] * 1e6), record[1].encode())

    (tmp_path / "kmsg").touch()
    watched = KernelSource(Shared(), kmsg=str(tmp_path / "kmsg"))
    monkeypatch.setattr(kernel.os, "read", read)  # type: ignore[attr-defined]
    now = time.time()
    events: list[Any] = [*watched.read(now), *watched.read(now + 7.0)]
    assert [event.kind for event in events] == ["kernel.xid", "kernel.oom", "kernel.xid"]
    assert [event.at - now for event in events] == pytest.approx([-50, -2, 7], abs=2)
    xid, oom, _ = events
    assert (xid.source, xid.text) == ("dmesg", XID)
    assert (xid.data["code"], xid.data["bus_id"], xid.data["pid"]) == (79, "0000:5f:00", 4711)
    assert (oom.data["pid"], oom.data["process"]) == (815, "python3")


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSource:
    """The source of a user who may not read the log, where ``sudo`` is the program of a test's."""
    (tmp_path / "sudo").touch(mode=0o755)
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "dmesg_restrict").write_text("1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel.os, "getuid", lambda: 1000)  # type: ignore[attr-defined]
    monkeypatch.setattr(kernel, "DMESG_EVERY", 0.0)
    return KernelSource(Shared(), str(tmp_path), str(tmp_path), str(tmp_path / "none"))


SUDO = Settings(1.0, 0.0, None, [], [], [], sudo=True)


def test_a_log_that_nobody_may_read_is_unknown_and_sudo_is_asked_once(closed: KernelSource, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    (tmp_path / "sudo").write_text(f"#!/bin/sh\necho sudo >> {asked}; echo 'sudo refuses' >&2; exit 1\n")
    with pytest.raises(Denied, match=r"No such file.*dmesg_restrict is 1.*--sudo allows it"):
        list(closed.read(0.0))
    assert not asked.exists(), "never unasked: sudo reports it to the administrators"
    for _ in range(2):
        closed.configure(SUDO)
        with pytest.raises(Denied, match=r"sudo refuses.*dmesg_restrict is 1"):
            list(closed.read(0.0))
    assert asked.read_text().split() == ["sudo"]


def test_dmesg_under_sudo_gives_each_line_once(closed: KernelSource, tmp_path: Path) -> None:
    said = tmp_path / "said"
    (tmp_path / "sudo").write_text(f"#!/bin/sh\ncat {said}\n")
    closed.configure(SUDO)
    found: list[Any] = []
    for seconds in (1.0, 2.0):
        with said.open("a") as log:
            log.write(f"[ {seconds}] {XID}\n")
        found += closed.read(time.time() if seconds > 1.0 else time.time() - time.monotonic())
    assert [event.kind for event in found] == ["kernel.xid", "kernel.xid"]
