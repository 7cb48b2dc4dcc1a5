"""Files whose names are a rank's user's to choose: as root nothing but what that user could read is opened.

A FIFO stands for whatever does something when it is opened (a watchdog's timer): its writer waits until it is.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors.node import files, living_env, nccl_conf, netns, recorder, software
from collectors.node.logs.tail import Tail
from collectors.probes.trace.remote.files import TraceFile
from tests.support.made import process


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    """A FIFO under this name, which nobody may open meanwhile."""
    os.mkfifo(path)
    opened = threading.Event()

    def write() -> None:
        os.close(os.open(path, os.O_WRONLY))
        opened.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    time.sleep(0.05)
    try:
        yield
        time.sleep(0.05)
        assert not opened.is_set(), "it was opened"
    finally:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        thread.join(5)


def _tail(path: Path) -> object:
    tail = Tail(str(path), whole=1 << 20, end=1 << 20)
    tail.refresh()
    return list(tail.read())


def _living(path: Path) -> object:
    with pytest.raises(OSError, match="no regular file"):
        living_env._variable(str(path))
    return None


def _traced(path: Path) -> object:
    with pytest.raises(OSError, match="no regular file"):
        TraceFile(str(path))
    return None


READERS: dict[str, Callable[[Path], object]] = {
    "a log": _tail,
    "a dump of the recorder": lambda path: recorder._content(str(path), os.getuid()),
    "NCCL's settings": lambda path: nccl_conf.settings(
        process(0)._replace(pid=os.getpid(), uid=os.getuid(), env={"NCCL_CONF_FILE": str(path)})
    ),
    "a version": lambda path: software.torch_versions("", str(path.parent), None, os.getuid()),
    "a library": _living,
    "a trace": _traced,
    "any": lambda path: files.read_named(str(path), 0),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_not_even_opened(tmp_path: Path, reader: str) -> None:
    place = tmp_path / "version.py"
    with untouched(place):
        assert not READERS[reader](place)


def test_what_was_looked_at_is_what_is_opened(tmp_path: Path) -> None:
    """The name is changed between the look and the opening."""
    name, other = tmp_path / "name", tmp_path / "other"
    name.write_text("this")
    other.write_text("another")

    def accept(found: os.stat_result) -> bool:
        name.unlink()
        name.symlink_to(other)
        return stat.S_ISREG(found.st_mode)

    with os.fdopen(files.opened(str(name), accept)) as file:
        assert file.read() == "this"


def test_a_link_is_no_file_where_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to("a")
    os.close(files.opened(str(tmp_path / "b")))
    with pytest.raises(OSError, match="no regular file"):
        files.opened(str(tmp_path / "b"), follow=False)


@pytest.mark.skipif(os.getuid() != 0, reason="files of others are made by root alone")
@pytest.mark.parametrize(
    ("mode", "owner", "uid", "read"),
    [
        (0o600, 0, 4711, False),
        (0o640, 4712, 4711, False),
        (0o644, 0, 4711, True),
        (0o600, 4711, 4711, True),
        (0o600, 4712, 0, True),
    ],
)
def test_root_reads_for_a_user_what_he_may_read(tmp_path: Path, mode: int, owner: int, uid: int, read: bool) -> None:
    file = tmp_path / "nccl.conf"
    file.write_text("NCCL_DEBUG=INFO\n")
    file.chmod(mode)
    os.chown(file, owner, owner)
    rank = process(0)._replace(pid=os.getpid(), uid=uid, env={"NCCL_CONF_FILE": str(file)})
    assert [line.value for line in nccl_conf.settings(rank).values()] == ["INFO"] * read


def test_a_version_is_as_long_as_one_is(tmp_path: Path) -> None:
    """A line of a node holds the ranks of all users."""
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "version.py").write_text(f"__version__ = '{'9' * 900_000}'\ncuda: str = '12.8'\n")
    found = software.torch_versions("", str(folder), None, os.getuid())
    assert (found["torch"], found["cuda"]) == ("9" * 100, "12.8")


def elf(strings: bytes, symbols: int, tables: int) -> bytes:
    """An ELF-64 file of nothing but tables of dynamic symbols, none of which is looked for."""
    names = 64
    entries = names + len(strings)
    sections = entries + 24 * symbols
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", 3, 62, 1, 0, 0, sections, 0, 64, 56, 0, 64, tables + 1, 0
    )
    row = struct.Struct("<IIQQQQIIQQ")
    rows = row.pack(0, 3, 0, 0, names, len(strings), 0, 0, 1, 0)
    rows += row.pack(0, 11, 0, 0, entries, 24 * symbols, 0, 0, 8, 24) * tables
    return header.ljust(names, b"\0") + strings + b"\xff" * (24 * symbols) + rows


def test_a_library_that_is_made_to_be_searched_for_long_is_not(tmp_path: Path) -> None:
    """Whoever starts a process with it would hold the node's reader: each name in a list of half a million places."""
    file = tmp_path / "libc.so.6"
    file.write_bytes(elf(b"\0environ" * 100_000 + b"\0", 20_000, 500))
    began = time.thread_time()
    assert living_env._variable(str(file)) is None
    assert time.thread_time() - began < 2.0


@pytest.mark.skipif(os.getuid() != 0, reason="another user's socket is made by root alone")
def test_a_path_that_leads_to_a_socket_of_another_is_not_spoken_to(tmp_path: Path) -> None:
    """A rank's user may put a link to who serves root (a container engine) in the place of his own socket."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        os.seteuid(4711)  # as listen() sees it
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        with pytest.raises(OSError, match="not the process's own"):
            netns.connect(os.getpid(), str(tmp_path / "socket"), 1.0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "own"))
        listener.listen()
        netns.connect(os.getpid(), str(tmp_path / "own"), 1.0).close()
