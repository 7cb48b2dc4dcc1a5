"""Files that were made to hurt ``hangtop analyze``: bounded in memory and time, told of in a line, no traceback."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import pickle
import re
import struct
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import zstandard

from tests.faults.fault import Family, Outcome, Play
from tests.faults.running import run
from tests.faults.scene import Scene

fault = Family("archives")

MIB = 1 << 20
USUAL = 120.0
"""MB that an ``analyze`` of nothing in particular takes, of which no more than :data:`fault.MEMORY` may be exceeded."""
SECONDS = 60.0
"""After which it has answered, on a machine that does other things, too."""

Make = Callable[[Path], None]
"""Fills a folder."""


def _analyzed(make: Make, *, stdout: str = "") -> Play:
    def play(scene: Scene) -> Outcome:
        folder = scene.path(".d")
        folder.mkdir()
        # Not by shutil, which goes down by recursion.
        scene.undo.callback(subprocess.run, ["rm", "-rf", str(folder)], check=True)
        make(folder)
        done = run(["analyze", str(folder), "--json"], seconds=SECONDS, stdout=Path(stdout) if stdout else None)
        wrong = done.shortcomings()
        if done.status not in ((74,) if stdout else (0, 1, 2)):
            wrong.append(f"status {done.status}: {done.said[-300:]}")
        why = re.findall(r'"why": "([^"]+)"', done.said) or re.findall(r"hangtop: (.*)", done.said)
        size = sum(map(int, re.findall(r'"bytes": (\d+)', done.said)))
        said = why[0] if why else f"read, all {size >> 20} MiB"
        return Outcome(
            said[:200], done.seconds, 0.0, max(0.0, done.memory - USUAL), disturbed=tuple(wrong)
        )  # fmt: skip

    return play


LINES = b"".join(b"step %d loss 0.%d tokens/s 4711\n" % (step, step) for step in range(40_000))
"""A MB and a half of what trainers print."""


def _gz(folder: Path, name: str, begin: bytes, block: bytes, size: int) -> None:
    """Write a gz that unpacks to what it begins with and then ``block`` after ``block``, ``size`` bytes in all.

    It is many archives one after another, as gzip allows: each is packed once.
    """
    several = block * max(1, 32 * MIB // len(block))
    packed = gzip.compress(several, compresslevel=1)
    with (folder / name).open("wb") as file:
        file.write(gzip.compress(begin))
        for _ in range(max(1, size // len(several))):
            file.write(packed)


def _texts(folder: Path) -> None:
    _gz(folder, "rank0.log.gz", b"", LINES, 2 << 30)


def _zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "logs.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(4):
            with archive.open(f"rank{number}.log", "w", force_zip64=True) as member:
                for _ in range(100):
                    member.write(LINES)


def _zst(folder: Path) -> None:
    packed = zstandard.ZstdCompressor().compress(LINES * 20)
    (folder / "rank0.log.zst").write_bytes(packed * 100)


def _bz2(folder: Path) -> None:
    (folder / "rank0.log.bz2").write_bytes(bz2.compress(LINES * 20) * 35)


def _numbers(folder: Path) -> None:
    (folder / "rank0.log").write_text(f"step {'7' * 5000} loss {'1' * 5000}\n")


def _nested(folder: Path) -> None:
    data = gzip.compress(b"step 1\n" * 100_000)
    for _ in range(40):
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            archive.writestr("inner.zip", data)
        data = inner.getvalue()
    (folder / "nested.zip").write_bytes(data)


def _places(folder: Path) -> None:
    (folder / "zero.log").symlink_to("/dev/zero")
    (folder / "random.log").symlink_to("/dev/urandom")
    (folder / "tty.log").symlink_to("/dev/tty")
    os.mkfifo(folder / "rank0.log")
    (folder / "loop").symlink_to(folder)
    (folder / "self.log").symlink_to(folder / "self.log")
    (folder / "a").mkdir()
    (folder / "a" / "b").symlink_to("..")


def _headers(folder: Path) -> None:
    """A tar whose pax header, and one whose long name, has gigabytes."""
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, 3 << 30
        _gz(folder, f"{kind.decode()}.tar.gz", header.tobuf(), bytes(MIB), 3 << 30)


def _names(folder: Path) -> None:
    with tarfile.open(folder / "names.tar", "w") as archive:
        for name in (
            "\x1b[2J\x1b]0;title\x07.log",
            "../../../etc/passwd",
            "/etc/shadow",
            "a\nb.log",
            "\x9b31m.log",
            "x" * 3000,
        ):
            member = tarfile.TarInfo(name)
            member.size = 7
            archive.addfile(member, io.BytesIO(b"step 1\n"))


def _deep_folders(folder: Path) -> None:
    current = os.open(folder, os.O_RDONLY)
    for _ in range(1000):
        os.mkdir("d", dir_fd=current)
        inner = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = inner
    os.close(current)


def _damaged(folder: Path) -> None:
    """3,000 zips, each with a byte turned."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.log", "step 1\n" * 50)
    data = whole.getvalue()
    for number in range(3000):
        turned = bytearray(data)
        turned[number % len(data)] ^= 1 << number % 8
        (folder / f"{number}.zip").write_bytes(turned)


def _many(folder: Path) -> None:
    for number in range(100_000):
        (folder / f"{number}.log").write_bytes(b"step 1\n")


class _Runs:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {MARK}",)


MARK = f"/var/tmp/hangtop-pickle-ran-{os.getpid()}"


def _pickles(folder: Path) -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    deep: tuple[object, ...] = ()
    for _ in range(900):
        deep = (deep,)
    doubled = b"".join(b"](h" + bytes([n]) + b"h" + bytes([n]) + b"e\x94" for n in range(30))
    laughs = b"\x80\x04]\x94" + doubled
    for number, data in enumerate((
        pickle.dumps(_Runs()), pickle.dumps({"entries": cycle}), pickle.dumps({deep: 1}),
        b"\x80\x04Nr" + struct.pack("<I", 0x7FFFFFFF) + b".", laughs + b".",
        b"\x80\x04\x96" + struct.pack("<Q", 10 << 30) + b".", b"(" * 5_000_000 + b".",
        b"\x80\x04" + b"]" * 3_000_000 + b".",
        b"\x80\x04\x8b" + struct.pack("<I", 5_000_000) + b"\xff" * 5_000_000 + b".",
    )):  # fmt: skip
        (folder / f"nccl_trace_rank_{number}").write_bytes(data)


def _ran(make: Make) -> Play:
    """Pickles; besides, none of them may have run anything."""
    analyzed = _analyzed(make)

    def play(scene: Scene) -> Outcome:
        outcome = analyzed(scene)
        assert not Path(MARK).exists(), "a pickle ran a program"
        return outcome

    return play


def _tools(folder: Path) -> None:
    """What py-spy and nvidia-smi print, 64 MB of each."""
    process = b"Process 1: a\nThread 1 (idle)\n" + b"    f (a.py:1)\n" * 60_000
    _gz(folder, "py-spy.txt.gz", b"", process, 64 * MIB)
    gpu = b"==NVSMI LOG==\nGPU 00000000:18:00.0\n" + b"  x\n   y : 1\n" * 70_000
    _gz(folder, "nvidia-smi.txt.gz", b"", gpu, 64 * MIB)


def _ras(folder: Path) -> None:
    (folder / "ras.txt").write_text(
        "NCCL version 2.27.3 compiled with CUDA 12.9\nJob summary\n===========\n\n  Nodes  Processes\n"
    )


def _bombs(folder: Path) -> None:
    for name, begin, pump in (
        ("fr_1.json.gz", b'{"pg_status": {}, "entries": [', b"[],"), ("fr_2.json.gz", b'{"entries": ', b"["),
        ("gpus.json.gz", b"[", b'{"memory.used": 1},'), ("trace.json.gz", b'{"traceEvents": [', b'{"ph": "X"},'),
    ):  # fmt: skip
        _gz(folder, name, begin, pump * (MIB // len(pump)), 96 * MIB)


def _fifo_writer(folder: Path) -> None:
    """A FIFO to which somebody does write, without end."""
    os.mkfifo(folder / "rank1.log")

    def write() -> None:
        try:
            with (folder / "rank1.log").open("wb") as file:
                while True:
                    file.write(bytes(MIB))
        except OSError:
            pass  # nobody reads it any more

    threading.Thread(target=write, daemon=True).start()


for _name, _make in {
    "a gz of 2 GB": _texts, "a zip of 600 MB": _zip, "a zst of 3 GB": _zst, "archives within archives": _nested,
    "a bz2 of 1 GB": _bz2,
    "/dev/zero, a FIFO, links in circles": _places, "a FIFO that somebody fills": _fifo_writer,
    "tar with headers of gigabytes": _headers, "member names with escape codes": _names,
    "folders a thousand deep": _deep_folders, "3,000 damaged zips": _damaged, "100,000 small files": _many,
    "JSON bombs in gz": _bombs, "64 MB of py-spy and nvidia-smi in gz": _tools,
    "a document of 500 MB in gz": lambda folder: _gz(folder, "fr_1.json.gz", b'{"entries": "', b"a" * MIB, 500 * MIB),
    "RAS text without its closing section": _ras,
    "numbers of 5,000 digits": _numbers,
}.items():  # fmt: skip
    fault(_name, ".")(_analyzed(_make))
fault("hostile pickles", ".")(_ran(_pickles))
fault("standard output on a full disk", "cannot be written: No space left on device")(
    _analyzed(_ras, stdout="/dev/full")
)
