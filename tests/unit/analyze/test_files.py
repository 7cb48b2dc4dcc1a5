"""Files, compressed ones and archives, in any nesting; damaged and hostile ones are said to be, and bounded."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from hangtop.session.folder import files
from hangtop.session.folder.files import HEAD, members
from hangtop.session.folder.session import FilesSession

LONG = b"".join(b"line %d of a log that is longer than its head\n" % number for number in range(4000))
assert len(LONG) > HEAD
MIB = 1 << 20


def tar(*entries: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 77
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


ARCHIVE = tar(("n1/rank0.log", LONG), ("n1/rank1.log.gz", gzip.compress(b"small\n")), ("n2/empty.log", b""))
INSIDE = {"x.tar/n1/rank0.log": LONG, "x.tar/n1/rank1.log": b"small\n", "x.tar/n2/empty.log": b""}


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("x.log", LONG, {"x.log": LONG}),
        ("y.log.gz", gzip.compress(LONG), {"y.log": LONG}),
        ("x.tar", ARCHIVE, INSIDE),
        ("x.tar", gzip.compress(ARCHIVE), INSIDE),
    ],
    ids=["log", "gzip", "tar", "gzip in tar's name"],
)
def test_what_is_in_files_and_archives(tmp_path: Path, name: str, data: bytes, found: dict[str, bytes]) -> None:
    (tmp_path / name).write_bytes(data)
    read = {member.name.removeprefix(f"{tmp_path}/"): b"".join(member.chunks()) for member in members([tmp_path])}
    assert read == found


def test_folders_in_order_and_links_that_go_round(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.log").write_bytes(b"2")
    (tmp_path / "a.log").write_bytes(b"1")
    (tmp_path / "b" / "round").symlink_to(tmp_path)
    assert [b"".join(member.chunks()) for member in members([tmp_path])] == [b"1", b"2"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (none,) = members([tmp_path / "none.log"])
    assert none.damage == "No such file or directory"
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LONG)[:-2000])
    for member in members([tmp_path / "x.log.gz"]):
        assert LONG.startswith(b"".join(member.chunks()))
        assert "damaged" in member.damage


@pytest.mark.parametrize(
    ("name", "begin", "pump", "size"),
    [
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": [', b"[],", 16 * MIB),
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": "', b"a", 200 * MIB),
    ],
    ids=["entries", "text"],
)
def test_documents_that_swell(tmp_path: Path, name: str, begin: bytes, pump: bytes, size: int) -> None:
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(size // MIB):
            file.write(pump * (MIB // len(pump)))
    tracemalloc.start()
    (one,) = FilesSession([tmp_path / name]).files
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 600 * MIB
    assert one.kind == ""
    assert one.why


def test_names_in_archives_reach_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "logs.tar").write_bytes(
        tar(*((name, b"abc\n") for name in ("\x1b]0;owned\x07a.log", "../../\x1b[2Jb.log", "c\n\r\x9b31m.log")))
    )
    names = [file.name for file in FilesSession([tmp_path]).files]
    assert len(names) == 3
    assert not any(char in name for name in names for char in "\x1b\x07\x9b\r")


def test_what_swells_without_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 4 * MIB)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"RuntimeError: x\n" + b"\n" * (6 * MIB)))
    (found,) = FilesSession([tmp_path / "a.log.gz"]).files
    assert "was not read" in found.why
    assert found.events, "what came before is read"
