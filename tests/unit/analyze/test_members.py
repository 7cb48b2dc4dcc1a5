"""Files, compressed ones, archives, in any nesting; damaged ones are said to be."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from hangtop.session.folder.members import CHUNK, HEAD, Member, Unreadable, members

LONG = b"".join(b"line %d of a log that is longer than its head\n" % number for number in range(4000))


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def tar(*files: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 77
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def content(path: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for member in members([path]):
        name = member.name.removeprefix(str(path.parent) + "/")
        if isinstance(member, Unreadable):
            found[name] = member.why
        else:
            found[name] = b"".join(member.chunks())
    return found


@pytest.mark.parametrize(
    ("ending", "compress"),
    [("", bytes), (".gz", gzip.compress), (".zst", zstd), (".xz", lzma.compress), (".bz2", bz2.compress)],
)
def test_compressed_files(tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]) -> None:
    assert len(LONG) > HEAD
    (tmp_path / f"x.log{ending}").write_bytes(compress(LONG))
    assert content(tmp_path / f"x.log{ending}") == {"x.log": LONG}


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd])
def test_archives(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    data = tar(("n1/rank0.log", LONG), ("n1/rank1.log.gz", gzip.compress(b"small\n")), ("n2/empty.log", b""))
    (tmp_path / "logs.tar.any").write_bytes(compress(data))
    assert content(tmp_path / "logs.tar.any") == {
        "logs.tar.any/n1/rank0.log": LONG,
        "logs.tar.any/n1/rank1.log": b"small\n",
        "logs.tar.any/n2/empty.log": b"",
    }


def test_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", LONG)
    assert content(tmp_path / "logs.zip") == {"logs.zip/a.log": LONG}


def test_folders_in_order_and_links_that_go_round(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.log").write_bytes(b"2")
    (tmp_path / "a.log").write_bytes(b"1")
    (tmp_path / "b" / "round").symlink_to(tmp_path)
    assert list(content(tmp_path).values()) == [b"1", b"2"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert content(tmp_path / "none.log") == {"none.log": "there is no such file"}
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LONG)[:-2000])
    for member in members([tmp_path / "x.log.gz"]):
        assert isinstance(member, Member)
        assert LONG.startswith(b"".join(member.chunks()))
        assert "damaged" in member.damage
    (tmp_path / "y.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 50)
    assert next(iter(content(tmp_path / "y.zst").values()))


def test_progress_counts_bytes_on_disk(tmp_path: Path) -> None:
    packed = gzip.compress(LONG)
    (tmp_path / "x.log.gz").write_bytes(packed)
    read: list[int] = []
    for member in members([tmp_path / "x.log.gz"], read.append):
        assert isinstance(member, Member)
        assert sum(map(len, member.chunks())) == len(LONG)
    assert sum(read) == len(packed)
    assert max(read) <= CHUNK


def test_a_document_over_its_limit_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(LONG)
    for member in members([tmp_path / "x"]):
        assert isinstance(member, Member)
        assert member.whole(1000) is None
