"""Names that a pattern matches, as :mod:`glob` finds them, in folders of which others may have made anything.

Two links of a folder to itself, and ``**`` of the standard library goes through them in every order, without an end. So
``**`` goes into no link here, as that of a shell; and what is looked at is bounded, in number and in depth.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from typing import Iterator, List, Sequence

NAMES = 200_000
"""Names that are looked at for one pattern."""
DEPTH = 64
"""Folders that ``**`` goes down."""
_ANY = "**"


def matches(pattern: str, names: int = NAMES) -> List[str]:
    """Paths that match, sorted and each once; of more than so many ``names`` on the way those that came first."""
    drive = "/" if pattern.startswith("/") else ""
    parts: List[str] = []
    for part in pattern.split("/"):
        if part and not (part == _ANY and parts[-1:] == [_ANY]):
            parts.append(part)
    return sorted(dict.fromkeys(_NameSearch(names).below(drive, parts, 0)))


class _NameSearch:
    """A search under way: how many names may still be looked at."""

    def __init__(self, names: int) -> None:
        self._left = names

    def below(self, folder: str, parts: Sequence[str], depth: int) -> Iterator[str]:
        """What matches these parts of a pattern in a folder; ``depth`` is how far ``**`` has gone down."""
        if not parts:
            yield folder
            return
        part, rest = parts[0], parts[1:]
        if part == _ANY:
            yield from self._anywhere(folder, parts, depth)
        elif glob.has_magic(part):
            for entry in self._entries(folder):
                if _shows(entry.name, part) and fnmatch.fnmatchcase(entry.name, part) and (not rest or _is_dir(entry)):
                    yield from self.below(os.path.join(folder, entry.name), rest, depth)
        elif os.path.lexists(os.path.join(folder, part)):
            yield from self.below(os.path.join(folder, part), rest, depth)

    def _anywhere(self, folder: str, parts: Sequence[str], depth: int) -> Iterator[str]:
        """``**`` is no folder, or any number of them; at the end everything in them."""
        rest = parts[1:]
        if rest:
            yield from self.below(folder, rest, depth)
        for entry in self._entries(folder):
            if not _shows(entry.name, _ANY):
                continue
            path = os.path.join(folder, entry.name)
            if not rest:
                yield path
            if depth < DEPTH and entry.is_dir(follow_symlinks=False):
                yield from self._anywhere(path, parts, depth + 1)

    def _entries(self, folder: str) -> List["os.DirEntry[str]"]:
        found: List[os.DirEntry[str]] = []
        try:
            with os.scandir(folder or ".") as entries:
                for entry in entries:
                    if self._left <= 0:
                        break
                    self._left -= 1
                    found.append(entry)
        except OSError:
            return found
        return found


def _shows(name: str, part: str) -> bool:
    """Names that begin with a dot are matched by patterns alone that do, too."""
    return part.startswith(".") or not name.startswith(".")


def _is_dir(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
