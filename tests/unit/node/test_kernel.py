"""The kernel's log through each of its doors, and what becomes of its lines."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.node.machine import kernel
from collectors.node.machine.kernel import KernelSource, parse_kmsg
from collectors.node.source import Denied, Shared
from collectors.samples.control import Settings
from collectors.samples.logs import LogEvent

XID = "NVRM: Xid (PCI:0000:5f:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
OOM = "Out of memory: Killed process 815 (python3) total-vm:1kB, anon-rss:1024kB, file-rss:0kB"


def test_records_of_kmsg() -> None:
    record = b"3,1234,98765432,-;NVRM: Xid (PCI:0000:5f:00): 79, x\n SUBSYSTEM=pci\n DEVICE=+pci:0000:5f:00.0\n"
    assert parse_kmsg(record) == (98.765432, "NVRM: Xid (PCI:0000:5f:00): 79, x")
    assert parse_kmsg(b"6,1,5,c,caller=T1;hello; world") == (5e-06, "hello; world")
    assert parse_kmsg(b"nonsense") is None


class Records:
    """What reads of /dev/kmsg give: records, or errors by number; None is "nothing yet"."""

    def __init__(self, *records: bytes | int | None) -> None:
        self.records = list(records)

    def read(self, _descriptor: int, _size: int) -> bytes:
        record = self.records.pop(0) if self.records else None
        if record is None:
            raise BlockingIOError
        if isinstance(record, int):
            raise OSError(record, os.strerror(record))
        return record


def record(stamp: float, text: str) -> bytes:
    return b"3,1,%d,-;%b\n" % (int(stamp * 1e6), text.encode())


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KernelSource]:
    """Makes the source with a log of these records."""

    def opened(*records: bytes | int | None) -> KernelSource:
        path = tmp_path / "kmsg"
        path.touch()
        made = source(tmp_path, path)
        monkeypatch.setattr(kernel.os, "read", Records(*records).read)  # type: ignore[attr-defined]
        return made

    return opened


def test_records_that_were_overwritten_unread_are_skipped(door: Callable[..., KernelSource]) -> None:
    up = time.monotonic()
    found: list[Any] = list(door(record(up - 9, XID), errno.EPIPE, record(up - 8, OOM)).look(time.time()))
    assert [event.kind for event in found] == ["kernel.xid", "kernel.oom"]


def test_a_line_that_comes_while_the_log_is_watched_has_the_time_of_now(door: Callable[..., KernelSource]) -> None:
    """Kernel stamps drift from the wall clock."""
    up = time.monotonic()
    watched = door(record(up - 100, XID), None, record(up - 50, XID))
    (old,), (fresh,) = (list(watched.look(moment)) for moment in (time.time(), time.time() + 7.0))
    assert isinstance(old, LogEvent)
    assert isinstance(fresh, LogEvent)
    assert old.at == pytest.approx(time.time() - 100, abs=2)
    assert fresh.at == pytest.approx(time.time() + 7, abs=2)


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def source(tmp_path: Path, kmsg_path: Path) -> KernelSource:
    return KernelSource(Shared(), str(tmp_path), str(tmp_path), str(kmsg_path))


def test_lines_that_matter_become_events_with_the_wall_clock(door: Callable[..., KernelSource]) -> None:
    up = time.monotonic()
    lines = (up - 60, "usb 1-1: new device"), (up - 50, XID), (up - 2, OOM), (up - 90_000, XID)
    events: list[Any] = list(door(*(record(*line) for line in lines)).look(time.time()))
    assert [event.kind for event in events] == ["kernel.xid", "kernel.oom"]
    xid, oom = events
    assert isinstance(xid, LogEvent)
    assert (xid.source, xid.text) == ("dmesg", XID)
    assert xid.at == pytest.approx(time.time() - 50, abs=2)
    assert (xid.data["code"], xid.data["bus_id"], xid.data["pid"]) == (79, "0000:5f:00", 4711)
    assert (oom.data["pid"], oom.data["process"]) == (815, "python3")


def test_a_log_that_nobody_may_read_is_unknown_and_sudo_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    script(tmp_path, "sudo", f"echo sudo >> {asked}; echo 'sudo refuses' >&2; exit 1")
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "dmesg_restrict").write_text("1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel.os, "getuid", lambda: 1000)  # type: ignore[attr-defined]
    closed = source(tmp_path, tmp_path / "none")
    with pytest.raises(Denied, match=r"No such file.*dmesg_restrict is 1.*--sudo allows it"):
        list(closed.look(0.0))
    assert not asked.exists(), "never unasked: sudo reports it to the administrators"
    for _ in range(2):
        closed.configure(Settings(1.0, 0.0, None, [], [], [], sudo=True))
        with pytest.raises(Denied, match=r"sudo refuses.*dmesg_restrict is 1"):
            list(closed.look(0.0))
    assert asked.read_text().split() == ["sudo"]


def test_dmesg_under_sudo_gives_each_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    script(tmp_path, "sudo", f"cat {said}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel.os, "getuid", lambda: 1000)  # type: ignore[attr-defined]
    monkeypatch.setattr(kernel, "DMESG_EVERY", 0.0)
    asked = source(tmp_path, tmp_path / "none")
    asked.configure(Settings(1.0, 0.0, None, [], [], [], sudo=True))
    found: list[Any] = []
    for seconds in (1.0, 2.0):
        with said.open("a") as log:
            log.write(f"[ {seconds}] {XID}\n")
        found += asked.look(time.time() if seconds > 1.0 else time.time() - time.monotonic())
    assert [event.kind for event in found] == ["kernel.xid", "kernel.xid"]
