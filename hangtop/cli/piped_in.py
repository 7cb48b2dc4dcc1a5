"""What is piped into a command, as a file: ``ssh n1 cat log | hangtop analyze -``, ``hangtop analyze <(zcat log)``."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

DASH = "-"
OF_OURS = ("/dev/fd/", "/proc/self/fd/")
"""Where pipes lie that whoever called us opened; others may wait for a writer for ever."""
PIECE = 1 << 20
MOST_PIPED = 8 << 30
"""Bytes that are taken of a pipe, at most."""


@contextmanager
def as_files(paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """The paths, with what comes through pipes copied into files that are gone afterwards."""
    if not any(map(_piped, paths)):
        yield tuple(paths)
        return
    with tempfile.TemporaryDirectory(prefix="hangtop-") as folder:
        yield tuple(_copied(path, Path(folder)) if _piped(path) else path for path in paths)


def _piped(path: Path) -> bool:
    if str(path) in (DASH, "/dev/stdin"):
        return True
    with suppress(OSError):
        return str(path).startswith(OF_OURS) and stat.S_ISFIFO(path.stat().st_mode)
    return False


def _copied(path: Path, folder: Path) -> Path:
    """Copy it to its end. Raises :class:`click.UsageError` for a keyboard, and where it is too much."""
    own = str(path) in (DASH, "/dev/stdin")
    if own and sys.stdin.isatty():
        raise click.UsageError(f"{path}: nothing is piped in; name files, or: ssh node1 cat log | hangtop analyze -")
    copy, took = folder / ("standard-input" if own else f"pipe-{path.name}"), 0
    with (
        os.fdopen(os.dup(0) if own else os.open(path, os.O_RDONLY), "rb", buffering=0) as pipe,
        copy.open("wb") as file,
    ):
        while piece := pipe.read(PIECE):
            took += file.write(piece)
            if took > MOST_PIPED:
                raise click.UsageError(f"{path}: more than {MOST_PIPED >> 30} GiB come through the pipe")
    return copy
