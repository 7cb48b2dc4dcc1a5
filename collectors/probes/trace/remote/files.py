"""Finds trace files and reads them, compressed or not; a file that ends too soon gives what it has."""

from __future__ import annotations

import errno
import glob
import os
import zlib
from typing import Iterable, List, Optional

from collectors.node.files import opened
from collectors.node.globbing import matches
from collectors.probes.trace.remote.scan import looks_like

ENDINGS = (".json", ".json.gz")
MOST = 4_096
"""Files of one search."""
HEAD = 1 << 13
"""Bytes by which a trace is told: Kineto names its schema and devices at once."""
PACKED = 1 << 18
"""Compressed bytes that are read at once."""
_MAGIC = b"\x1f\x8b"
_GZIP = 31


class TraceFile:
    """The uncompressed bytes of a file; a context manager. Opening raises :class:`OSError`.

    With ``new`` it is one that a rank has just written where others may write too: a link is not followed, and a file
    of anybody but ``new``, a uid, is not read.
    """

    def __init__(self, path: str, new: Optional[int] = None) -> None:
        self._file = os.fdopen(opened(path, follow=new is None), "rb")
        found = os.fstat(self._file.fileno())
        self.size = found.st_size
        if new not in (None, found.st_uid):
            self._file.close()
            raise OSError(errno.EPERM, "no file of the rank's", path)
        self._inflater = zlib.decompressobj(_GZIP) if self._file.read(2) == _MAGIC else None
        self._file.seek(0)
        self._packed = b""
        self.why = ""
        """Why it could not be read to its end."""

    def __enter__(self) -> "TraceFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, count: int) -> bytes:
        """The next bytes; none at the end, also where that comes too soon."""
        if self.why:
            return b""
        try:
            return self._file.read(count) if self._inflater is None else self._inflate(count)
        except zlib.error:
            self.why = "the compressed data is damaged"
        except OSError as error:
            self.why = os.strerror(error.errno or 0)
        return b""

    def _inflate(self, count: int) -> bytes:
        """Not with the module gzip: where the data ends too soon it keeps what came before to itself."""
        assert self._inflater is not None
        while True:
            if self._inflater.eof:
                # several members may follow one another, and zeros behind the last
                self._packed = (self._inflater.unused_data + self._packed).lstrip(b"\0")
                if len(self._packed) < len(_MAGIC):
                    self._packed += self._file.read(PACKED)
                if not self._packed.startswith(_MAGIC):
                    return b""
                self._inflater = zlib.decompressobj(_GZIP)
            packed = self._packed or self._file.read(min(PACKED, count))
            if not packed:
                self.why = "the compressed data ends too soon"
                return b""
            data = self._inflater.decompress(packed, count)
            self._packed = self._inflater.unconsumed_tail
            if data:
                return data


def find(patterns: Iterable[str]) -> List[str]:
    """Files that paths, folders and globs name, each once. A path that is given as it is comes whatever it holds.

    Of folders and globs only files count that look like traces. What names none comes as it is: reading it says why.
    """
    found: List[str] = []
    for pattern in patterns:
        path = os.path.expanduser(pattern)
        if os.path.isdir(path):
            found += _traces(sorted(_under(path))) or [path]
        elif os.path.exists(path) or not glob.has_magic(path):
            found.append(path)
        else:
            matched = matches(path)
            below = [name for folder in matched if os.path.isdir(folder) for name in sorted(_under(folder))]
            found += _traces([*(name for name in matched if os.path.isfile(name)), *below]) or [path]
        if len(found) > MOST:
            break
    return list(dict.fromkeys(found))[:MOST]


def reason(error: OSError) -> str:
    """Why a file could not be opened."""
    if error.errno == errno.EISDIR:
        return "there is no trace in this folder"
    return error.strerror or str(error)


def _under(folder: str) -> List[str]:
    every = matches(os.path.join(glob.escape(folder), "**"))
    return [path for path in every if path.endswith(ENDINGS) and not os.path.isdir(path)][:MOST]


def _traces(paths: Iterable[str]) -> List[str]:
    return [path for path in paths if may_be_trace(path)]


def may_be_trace(path: str) -> bool:
    """Whether a file begins like a trace. One that cannot be read may be one: who reads it is told why not."""
    try:
        with TraceFile(path) as file:
            return looks_like(file.read(HEAD)) or bool(file.why)
    except OSError:
        return True
