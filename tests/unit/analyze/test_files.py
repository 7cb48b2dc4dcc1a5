"""Files, compressed ones and archives, in any nesting; damaged and hostile ones are said to be, and bounded."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from hangtop.session.folder import files, files_session
from hangtop.session.folder.documents import Recognised
from hangtop.session.folder.files import CHUNK, HEAD, members

LONG = b"".join(b"line %d of a log that is longer than its head\n" % number for number in range(4000))
MIB = 1 << 20


def tar(*entries: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 77
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def content(path: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for member in members([path]):
        name = member.name.removeprefix(str(path.parent) + "/")
        found[name] = member.damage or b"".join(member.chunks())
    return found


def test_plain_and_compressed_files(tmp_path: Path) -> None:
    assert len(LONG) > HEAD
    (tmp_path / "x.log").write_bytes(LONG)
    (tmp_path / "y.log.gz").write_bytes(gzip.compress(LONG))
    assert content(tmp_path / "x.log") == {"x.log": LONG}
    assert content(tmp_path / "y.log.gz") == {"y.log": LONG}


@pytest.mark.parametrize("packed", [False, True])
def test_archives(tmp_path: Path, packed: bool) -> None:
    data = tar(("n1/rank0.log", LONG), ("n1/rank1.log.gz", gzip.compress(b"small\n")), ("n2/empty.log", b""))
    (tmp_path / "logs.tar").write_bytes(gzip.compress(data) if packed else data)
    assert content(tmp_path / "logs.tar") == {
        "logs.tar/n1/rank0.log": LONG,
        "logs.tar/n1/rank1.log": b"small\n",
        "logs.tar/n2/empty.log": b"",
    }


def test_folders_in_order_and_links_that_go_round(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.log").write_bytes(b"2")
    (tmp_path / "a.log").write_bytes(b"1")
    (tmp_path / "b" / "round").symlink_to(tmp_path)
    assert list(content(tmp_path).values()) == [b"1", b"2"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert content(tmp_path / "none.log") == {"none.log": "No such file or directory"}
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LONG)[:-2000])
    for member in members([tmp_path / "x.log.gz"]):
        assert LONG.startswith(b"".join(member.chunks()))
        assert "damaged" in member.damage


def test_progress_counts_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LONG))
    read: list[int] = []
    for member in members([tmp_path / "x.log.gz"], read.append):
        assert sum(map(len, member.chunks())) == len(LONG)
    assert sum(read) == len(LONG)
    assert max(read) <= CHUNK


def test_a_document_over_its_limit_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(LONG)
    for member in members([tmp_path / "x"]):
        assert member.whole(1000) is None


def read_bounded(path: Path, most: int = 600 * MIB) -> list[Recognised]:
    tracemalloc.start()
    found = files_session([path]).files
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most
    return found


@pytest.mark.parametrize(
    ("name", "begin", "pump", "size"),
    [
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": [', b"[],", 16 * MIB),
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": "', b"a", 200 * MIB),
        ("ras.json.gz", b'{"nccl_version": "2", "communicators_count": 1, "communicators": [', b"{},", 16 * MIB),
    ],
)
def test_documents_that_swell(tmp_path: Path, name: str, begin: bytes, pump: bytes, size: int) -> None:
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(size // MIB):
            file.write(pump * (MIB // len(pump)))
    (one,) = read_bounded(tmp_path / name)
    assert one.kind == ""
    assert one.why


def test_names_in_archives_reach_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "logs.tar").write_bytes(
        tar(*((name, b"abc\n") for name in ("\x1b]0;owned\x07a.log", "../../\x1b[2Jb.log", "c\n\r\x9b31m.log")))
    )
    names = [file.name for file in files_session([tmp_path]).files]
    assert len(names) == 3
    assert not any(char in name for name in names for char in "\x1b\x07\x9b\r")


def test_damaged_archives_are_said_and_never_raise(tmp_path: Path) -> None:
    rng = random.Random(7)
    data = tar(("n" * 150, b"abc\n"), ("b.json", b"{}"))
    path = tmp_path / "x.tar"
    for number in range(500):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        path.write_bytes(bytes(broken[: rng.choice((len(broken), rng.randint(1, len(broken))))]))
        assert all(isinstance(file, Recognised) for file in files_session([path]).files), number


def test_very_many_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        (tmp_path / f"{number}.log").write_text("x\n")
    monkeypatch.setattr(files, "MOST_FILES", 50)
    found = files_session([tmp_path]).files
    assert len(found) == 51
    assert "more than 50 files" in found[-1].why


def test_what_swells_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 4 * MIB)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"RuntimeError: x\n" + b"\n" * (20 * MIB)))
    (said,) = files_session([tmp_path]).files
    assert "was not read" in said.why
    assert said.events, "what came before is read"


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("RuntimeError: x\n")
    code = "import sys; from hangtop.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "analyze", "--json", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=180)
    assert ended.returncode == 74
    assert ended.stderr == "hangtop: the output cannot be written: No space left on device\n"
