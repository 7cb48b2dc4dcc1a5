"""The kernel's log through each of its doors, and what becomes of its lines."""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.child import ChildEnded, run
from collectors.node.machine import kernel
from collectors.node.machine.kernel import (
    DmesgPoller,
    KernelSource,
    KmsgReader,
    parse_dmesg,
    parse_kmsg,
)
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
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KmsgReader]:
    """Opens a KmsgReader over these records."""

    def opened(*records: bytes | int | None) -> KmsgReader:
        path = tmp_path / "kmsg"
        path.touch()
        monkeypatch.setattr(kernel.os, "read", Records(*records).read)  # type: ignore[attr-defined]
        return KmsgReader(str(path))

    return opened


def test_records_that_were_overwritten_unread_are_skipped(door: Callable[..., KmsgReader]) -> None:
    reader = door(record(1, "a"), errno.EPIPE, record(2, "b"))
    assert [line.text for line in reader.read(0.0)] == ["a", "b"]
    assert reader.read(0.0) == []


def test_a_clock_that_has_drifted_is_put_right_by_a_fresh_line(door: Callable[..., KmsgReader]) -> None:
    offset = time.time() - time.monotonic()
    reader = door(record(100, "old"), None, record(200, "fresh"), None, record(201, "next"))
    assert reader.read(offset + 500)[0].at == pytest.approx(offset + 100, abs=1)
    assert reader.read(offset + 240)[0].at == pytest.approx(offset + 240, abs=1)
    assert reader.read(offset + 241.5)[0].at == pytest.approx(offset + 241, abs=1)


def test_dmesg_asked_again_gives_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "[ 1.0] a\n[ 2.0] b\n"
    monkeypatch.setattr(kernel, "run", lambda argv, timeout, limit: ChildEnded(0, said.encode(), b""))
    poller = DmesgPoller(["dmesg"], 0.0)
    assert [line.text for line in poller.read(time.time())] == ["a", "b"]
    said += "[ 3.0] c\n"
    assert [line.text for line in poller.read(time.time())] == ["c"]
    assert poller.read(time.time()) == []


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def source(tmp_path: Path, kmsg_path: Path) -> KernelSource:
    return KernelSource(Shared(), str(tmp_path), str(tmp_path), str(kmsg_path))


def test_lines_that_matter_become_events_with_the_wall_clock(tmp_path: Path, door: Callable[..., KmsgReader]) -> None:
    up = time.monotonic()
    door(record(up - 60, "usb 1-1: new device"), record(up - 50, XID), record(up - 2, OOM), record(up - 90_000, XID))
    events: list[Any] = list(source(tmp_path, tmp_path / "kmsg").look(time.time()))
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
    for name in ("dmesg", "sudo"):
        script(tmp_path, name, f"echo {name} >> {asked}; echo '{name} refuses' >&2; exit 1")
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "dmesg_restrict").write_text("1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel.os, "getuid", lambda: 1000)  # type: ignore[attr-defined]
    closed = source(tmp_path, tmp_path / "none")
    for _ in range(2):
        with pytest.raises(Denied, match=r"dmesg refuses.*dmesg_restrict is 1.*--sudo allows it"):
            list(closed.look(0.0))
    assert asked.read_text().split() == ["dmesg"], "never unasked: sudo reports it to the administrators"
    asked.unlink()
    for _ in range(2):
        closed.configure(Settings(1.0, 0.0, None, [], [], [], sudo=True))
        with pytest.raises(Denied, match=r"dmesg refuses.*sudo refuses.*dmesg_restrict is 1"):
            list(closed.look(0.0))
    assert asked.read_text().split() == ["dmesg", "sudo"]


def test_a_sudo_that_cannot_be_killed_takes_nothing_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "dmesg", "exit 1")
    script(tmp_path, "sudo", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel.os, "getuid", lambda: 1000)  # type: ignore[attr-defined]
    monkeypatch.setattr(kernel, "run", lambda argv, timeout, limit=1: run(argv, 0.2, limit))
    refused: list[int] = []

    def kill(pid: int, _number: int) -> None:
        refused.append(pid)
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "kill", kill)
    closed = source(tmp_path, tmp_path / "none")
    closed.configure(Settings(1.0, 0.0, None, [], [], [], sudo=True))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(Denied, match="sudo -n dmesg shows nothing"):
        list(closed.look(0.0))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    monkeypatch.undo()
    for pid in refused:  # on a busy machine the others, too, took longer than they may, and ended since
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


@given(st.binary(max_size=200))
def test_no_bytes_break_a_parser(data: bytes) -> None:
    said = data.decode("utf-8", "replace")
    for line in (parse_kmsg(data), *parse_dmesg(said)):
        assert line is None or (math.isfinite(line[0]) and "\n" not in line[1])
