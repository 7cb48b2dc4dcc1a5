"""What is piped into a command, as a file: ``ssh n1 cat log | hangtop analyze -``, ``hangtop analyze <(zcat log)``."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

STANDARD_INPUT = ("-", "/dev/stdin")
SHELLS_OWN = ("/dev/fd/", "/proc/self/fd/")
"""Where pipes lie that the shell opened for us; other pipes may wait for a writer for ever."""


@contextmanager
def as_files(paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """The paths, with what comes through pipes copied into files that are gone afterwards."""
    if not any(map(_piped, paths)):
        yield tuple(paths)
        return
    with tempfile.TemporaryDirectory(prefix="hangtop-") as folder:
        yield tuple(_copied(path, Path(folder)) if _piped(path) else path for path in paths)


def _piped(path: Path) -> bool:
    if str(path) in STANDARD_INPUT:
        return True
    with suppress(OSError):
        return str(path).startswith(SHELLS_OWN) and stat.S_ISFIFO(path.stat().st_mode)
    return False


def _copied(path: Path, folder: Path) -> Path:
    """Copy it to its end. Raises :class:`click.UsageError` for a keyboard."""
    own = str(path) in STANDARD_INPUT
    if own and sys.stdin.isatty():
        raise click.UsageError(f"{path}: nothing is piped in; name files, or: ssh node1 cat log | hangtop analyze -")
    copy = folder / ("standard-input" if own else f"pipe-{path.name}")
    with os.fdopen(os.dup(0) if own else os.open(path, os.O_RDONLY), "rb") as pipe, copy.open("wb") as file:
        shutil.copyfileobj(pipe, file)
    return copy
