"""Recordings: everything that a session took in, with its times, in a file that can be replayed and sought in.

Layout: a magic line, then blocks (:mod:`hangtop.session.tape.blocks`). A file that was cut off in the middle of a
block is good up to there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard

from hangtop.session.tape.blocks import HEADER, About, BlockWriter, PackedBlock, RecordedEntry, are_times, unpack

MAGIC = b"hangtop recording 1\n"
MOST_BYTES = 64 << 20
"""A header that claims a larger block is damaged."""


class RecordingError(Exception):
    """The file cannot be written or read; the text names it and says why."""


class Recorder(BlockWriter):
    """Writes a recording."""

    def __init__(self, path: Path, about: About) -> None:
        """Create the file. Raises :class:`RecordingError`, also when it is there already."""
        self.path = path
        try:
            # Open for as long as the session runs; close() ends it.
            super().__init__(path.open("xb"))
            self._file.write(MAGIC)
        except FileExistsError:
            raise RecordingError(f"{path}: is there already; a recording is never overwritten") from None
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written: {error.strerror}") from None
        self._about = about
        self.add(about.started, "", "about", about)

    def flush(self) -> None:
        """Write what is left. Raises :class:`RecordingError`."""
        try:
            super().flush()
        except OSError as error:
            # Why comes first: a panel that is narrow shows the beginning.
            raise RecordingError(f"{error.strerror}: {self.path} cannot be written any more") from None

    def close(self, at: float) -> None:
        """Write what is left, and that it was watched until ``at``; end the file. Raises :class:`RecordingError`.

        What was seen last is seldom the last that was watched: a wait goes on without a word.
        """
        try:
            self.add(at, "", "about", self._about)
            self.flush()
        finally:
            self._file.close()


class Recording:
    """A recording, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open it and read its headers. Raises :class:`RecordingError` for anything that is no recording."""
        self.path = path
        self.damage = ""
        """What is wrong with its end; empty for a whole one."""
        try:
            with path.open("rb") as file:
                self.blocks = tuple(self._scan(file))
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
        first = next(self.entries(), None)
        if first is None or not isinstance(first.payload, About):
            raise RecordingError(f"{path}: {self.damage or 'holds nothing'}")
        self.about = first.payload

    @property
    def span(self) -> tuple[float, float]:
        """Times of its first and last entry."""
        return self.blocks[0].first, max(block.last for block in self.blocks)

    def entries(self, *, until: float = float("inf")) -> Iterator[RecordedEntry]:
        """All entries up to a time, in order; ends at the first damaged one and says so in ``damage``."""
        try:
            with self.path.open("rb") as file:
                for block in self.blocks:
                    if block.first > until:
                        return
                    file.seek(block.offset)
                    for entry in unpack(file.read(block.size), block.unpacked):
                        if entry.at > until:
                            return
                        yield entry
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be read: {error.strerror}") from None
        except (msgspec.DecodeError, zstandard.ZstdError, KeyError, ValueError) as error:
            self.damage = f"damaged after {self._seconds(block.first)} s: {error}"

    def _scan(self, file: BinaryIO) -> Iterator[PackedBlock]:
        if file.read(len(MAGIC)) != MAGIC:
            raise RecordingError(f"{self.path}: is no hangtop recording")
        size = self.path.stat().st_size
        offset = file.tell()
        while header := file.read(HEADER.size):
            if len(header) < HEADER.size:
                self.damage = "cut off in a block's header"
                return
            packed, unpacked, first, last = HEADER.unpack(header)
            offset += HEADER.size
            if max(packed, unpacked) > MOST_BYTES or not are_times(first, last):
                self.damage = f"damaged at byte {offset}"
                return
            if offset + packed > size:
                self.damage = "cut off in the middle of a block"
                return
            yield PackedBlock(offset, packed, unpacked, first, last)
            offset += packed
            file.seek(offset)

    def _seconds(self, at: float) -> int:
        return round(at - self.blocks[0].first)
