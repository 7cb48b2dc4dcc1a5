"""Files that were made to hurt whoever reads them: bounded in memory and time, and said in a line."""

from __future__ import annotations

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from hangtop.session.folder import files_session, members
from hangtop.session.folder.contents import Recognised

MIB = 1 << 20


def read_bounded(path: Path, most: int = 600 * MIB, seconds: float = 60.0) -> list[Recognised]:
    tracemalloc.start()
    began = time.thread_time()
    session = files_session([path])
    session.job()
    took, (_, peak) = time.thread_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most
    assert took < seconds
    return session.files


@pytest.mark.parametrize(
    ("name", "begin", "pump", "size"),
    [
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": [', b"[],", 48 * MIB),
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": [', b"{},", 48 * MIB),
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": [', b"1,", 48 * MIB),
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": ', b"[", 48 * MIB),
        ("fr_3.json.gz", b'{"pg_status": {}, "entries": "', b"a", 500 * MIB),
        ("ras.json.gz", b'{"nccl_version": "2", "communicators_count": 1, "communicators": [', b"{},", 48 * MIB),
        ("gpus.json.gz", b'[{"memory.used": 1, "utilization.gpu": 1},', b"{},", 48 * MIB),
        ("py-spy.json.gz", b'[{"thread_id": 1, "owns_gil": 1, "frames": [', b"{},", 48 * MIB),
    ],
)
def test_documents_that_swell(tmp_path: Path, name: str, begin: bytes, pump: bytes, size: int) -> None:
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(begin)
        block = pump * (MIB // len(pump))
        for _ in range(size // MIB):
            file.write(block)
    (one,) = read_bounded(path)
    assert one.kind == ""
    assert one.why


@pytest.mark.parametrize(
    ("name", "begin", "pump"),
    [
        ("py-spy.txt", "Process 1: a\nPython v3.11\n", "Process 1: a\n"),
        ("py-spy.txt", "Process 1: a\nPython v3.11\n", "Thread 1 (idle)\n"),
        ("py-spy.txt", "Process 1: a\nThread 1 (idle)\n", "    f (a.py:1)\n"),
        ("py-spy.txt", "Process 1: a\nThread 1 (idle)\n", "    " + " (" * 1000 + "\n"),
        ("smi.txt", "==NVSMI LOG==\nGPU 00000000:18:00.0\n", "GPU 00000000:18:00.0\n"),
        ("smi.txt", "==NVSMI LOG==\nGPU 00000000:18:00.0\n", "  x\n   y : 1\n"),
        ("smi.txt", "", "GPU 0: NVIDIA H100 (UUID: GPU-1)\n"),
        ("smi.csv", "index, utilization.gpu [%], memory.used [MiB]\n", "7, 5 %, 3 MiB\n"),
    ],
    ids=range(8),
)
def test_output_of_tools_without_end(tmp_path: Path, name: str, begin: str, pump: str) -> None:
    path = tmp_path / name
    path.write_text(begin + pump * (MIB // 8 // len(pump)))
    read_bounded(path)
    path.write_text(begin + pump * (17 * MIB // len(pump)))
    (one,) = read_bounded(path, seconds=5.0)
    assert "is larger than" in one.why


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_tar_whose_header_has_gigabytes(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "logs.tar.gz"
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 2 << 30
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            file.write(bytes(MIB))
    (one,) = read_bounded(path, 64 * MIB)
    assert "header" in one.why


def test_a_pax_header_with_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar"
    words = b"size=" + b"9" * 5000 + b"\n"
    record = b"%d %s" % (len(words) + 5, words)
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    path.write_bytes(header.tobuf() + record.ljust(-(-len(record) // 512) * 512, b"\0") + tarfile.TarInfo("y").tobuf())
    assert all(isinstance(one, Recognised) for one in read_bounded(path))


def test_names_in_archives_reach_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("\x1b]0;owned\x07a.log", "../../\x1b[2Jb.log", "c\n\r\x9b31m.log"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"abc\n"))
    zipped = tmp_path / "more.zip"
    with zipfile.ZipFile(zipped, "w") as package:
        package.writestr("\x1b]0;owned\x07d.log", "abc\n")
    names = [file.name for file in files_session([tmp_path]).files]
    assert len(names) == 4
    assert not any(char in name for name in names for char in "\x1b\x07\x9b\r")


def test_folders_a_thousand_deep(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("RuntimeError: x\n")
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(1100):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        files = read_bounded(tmp_path)
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
    assert [Path(file.name).name for file in files if not file.why] == ["a.log"]
    assert any("folders deep" in file.why for file in files)


def test_damaged_archives_are_said_and_never_raise(tmp_path: Path) -> None:
    rng = random.Random(7)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/rank0.log", "RuntimeError: x\n" * 20)
        archive.writestr("b.json", "{}")
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        entry = tarfile.TarInfo("n" * 150)
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"abc\n"))
    for data, name in ((packed.getvalue(), "x.zip"), (gzip.decompress(tarred.getvalue()), "x.tar")):
        for number in range(700):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            path = tmp_path / name
            path.write_bytes(bytes(broken[: rng.choice((len(broken), rng.randint(1, len(broken))))]))
            assert all(isinstance(file, Recognised) for file in files_session([path]).files), number


def test_very_many_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        (tmp_path / f"{number}.log").write_text("x\n")
    monkeypatch.setattr(members, "MOST_FILES", 50)
    files = files_session([tmp_path]).files
    assert len(files) == 51
    assert "more than 50 files" in files[-1].why


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("RuntimeError: x\n")
    code = "import sys; from hangtop.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "analyze", "--json", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=180)
    assert ended.returncode == 74
    assert ended.stderr == "hangtop: standard output cannot be written: No space left on device\n"


def sparse_header(name: str, size: int, parts: list[tuple[int, int]], *, goes_on: bool = False) -> bytes:
    """GNU tar's header of a sparse file: up to four parts in it, and the size that it claims."""
    header = tarfile.TarInfo(name)
    header.type, header.size = tarfile.GNUTYPE_SPARSE, sum(length for _, length in parts)
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    at = 386
    for number in [number for part in parts for number in part]:
        block[at : at + 12] = b"%011o\0" % number
        at += 12
    block[482] = goes_on
    block[483:495] = b"\x80" + size.to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def test_a_sparse_member_that_claims_terabytes(tmp_path: Path) -> None:
    line = b"RuntimeError: x\n"
    data = line.ljust(512, b"\0")
    parts = [(1 << 30, len(line)), (4 << 30, 0)]
    (tmp_path / "logs.tar").write_bytes(
        sparse_header("rank0.log", 8 << 40, parts) + data + sparse_header("rank1.log", 16, [(0, 16)]) + data
        + bytes(1024)
    )  # fmt: skip
    one, other = read_bounded(tmp_path / "logs.tar", seconds=5.0)
    assert (one.why, other.why) == ("", "")
    assert one.size == other.size == len(line), "its holes are left out"
    assert one.kind == other.kind == "rank log"


def test_what_swells_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hangtop.session.folder.streams.LEAST", 16 * MIB)
    monkeypatch.setattr("hangtop.session.folder.streams.TIMES", 10)
    line = b"RuntimeError: x\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(line + b"\n" * (20 * MIB)))
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(line + b"\n" * (4 * MIB)))
    (tmp_path / "c.log.gz").write_bytes(gzip.compress(gzip.compress(line + b"\n" * (20 * MIB))))
    (tmp_path / "e.tar").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("d.log", line + b"\n" * (20 * MIB))
    with tarfile.open(tmp_path / "e.tar", "w") as archive:
        entry = tarfile.TarInfo("plain.log")
        entry.size = 20 * MIB
        archive.addfile(entry, io.BytesIO(line + b"\n" * (entry.size - len(line))))
    said = {Path(file.name).name: file for file in files_session([tmp_path]).files}
    for name in ("a.log", "c.log", "d.log"):
        assert "swell to more than" in said[name].why, name
        assert said[name].events, "what came before is read"
    for name in ("b.log", "plain.log"):
        assert said[name].why == "", name
