"""Paths that a call names: from a folder made like /proc, and from a real process that waits in an open."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.processes import named_files, process_state

AT = 3 * 4096 - 6
"""Where the path begins: its end is on the next page."""
HERE, READ, WRITE, BOTH = "0xffffffffffffff9c", "0x80000", "0x80241", "0x80242"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fd").mkdir()
    (tmp_path / "cwd").symlink_to("/job")
    (tmp_path / "fd" / "9").symlink_to("/data")
    return tmp_path


def remember(folder: Path, text: bytes, at: int = AT) -> None:
    (folder / "mem").write_bytes(b"x" * at + text)


@pytest.mark.parametrize(
    ("call", "words", "path", "told"),
    [
        ("openat", (HERE, hex(AT), WRITE), b"/ckpt/model.pt", "/ckpt/model.pt, to write"),
        ("openat", (HERE, hex(AT), READ), b"shard-7", "/job/shard-7, to read"),
        ("openat", ("0x9", hex(AT), READ), b"shard-7", "/data/shard-7, to read"),
        ("openat", ("0x8", hex(AT), READ), b"shard-7", ""),
        ("openat", (HERE, hex(AT), BOTH), b"/ckpt/index", "/ckpt/index"),
        ("open", (hex(AT), WRITE), b"/ckpt/model.pt", "/ckpt/model.pt, to write"),
        ("rename", (hex(AT), "0x1"), b"/ckpt/tmp", "/ckpt/tmp"),
        ("statx", (HERE, hex(AT)), b"", ""),
        ("statx", (HERE,), b"/x", ""),
        ("statx", (HERE, "0xfffffffffffff000"), b"/x", ""),
        ("statx", (HERE, "zz"), b"/x", ""),
    ],
)
def test_a_path_in_memory(folder: Path, call: str, words: Sequence[str], path: bytes, told: str) -> None:
    remember(folder, path + b"\0after")
    assert named_files.named(str(folder), call, words) == told


def test_the_flags_of_openat2_are_in_memory_too(folder: Path) -> None:
    remember(folder, os.O_WRONLY.to_bytes(8, "little") + b"/ckpt/model.pt\0")
    words = (HERE, hex(AT + 8), hex(AT))
    assert named_files.named(str(folder), "openat2", words) == "/ckpt/model.pt, to write"


def test_memory_that_may_not_be_read_tells_nothing(folder: Path) -> None:
    assert named_files.named(str(folder), "openat", (HERE, hex(AT), READ)) == ""


@given(st.binary(max_size=9000))
def test_whatever_is_in_memory_is_bounded(tmp_path_factory: pytest.TempPathFactory, memory: bytes) -> None:
    folder = tmp_path_factory.mktemp("p")
    remember(folder, memory)
    assert len(named_files.named(str(folder), "open", (hex(AT), WRITE))) <= named_files.LONGEST + len(", to write")


@pytest.mark.parametrize(("mode", "purpose"), [("rb", "read"), ("wb", "write")])
def test_a_real_process_that_opens_a_pipe_with_nobody_at_its_other_end(tmp_path: Path, mode: str, purpose: str) -> None:
    os.mkfifo(tmp_path / "model.pt")
    with subprocess.Popen([sys.executable, "-c", f"open('model.pt', '{mode}')"], cwd=tmp_path) as waiting:
        try:
            told = f"{tmp_path}/model.pt, to {purpose}"
            ends = time.monotonic() + 20
            while (seen := process_state.of(waiting.pid)) is not None and seen.waiting_on != told:
                assert time.monotonic() < ends, seen
                time.sleep(0.02)
            assert seen is not None
            assert seen.syscall in ("open", "openat")
        finally:
            waiting.kill()
