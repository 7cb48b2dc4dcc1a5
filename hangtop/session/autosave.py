"""Sessions that were kept when they ended: few of them, the oldest go."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

MOST_BYTES = 1 << 30
"""Of all recordings that are kept, …"""
MOST_FILES = 32
"""… and their number: the oldest go."""
SUFFIX = ".hangtop"
PART = ".part"
"""Of one that is being written, …"""
LEFT = 3600.0
"""… and the seconds after which nobody does any more."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class NotKeptError(Exception):
    """Nothing could be kept; the text says why."""


def autosave_folder() -> Path:
    """Where they lie: ``$XDG_STATE_HOME/hangtop``, usually ``~/.local/state/hangtop``."""
    import platformdirs

    return platformdirs.user_state_path("hangtop")


def autosaved(folder: Path) -> list[Path]:
    """Recordings that are kept, the oldest first. Raises :class:`OSError`."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())


def half_written(folder: Path) -> Path:
    """A name there for what is being recorded. Raises :class:`OSError` where the folder cannot be made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    numbers = (f"{os.getpid()}-{number}{PART}" for number in count())
    return next(path for name in numbers if not (path := folder / name).exists())


def kept_as(path: Path, folder: Path, targets: Sequence[str], at: float) -> Path:
    """Give what was recorded its name: when it ended, and what was watched. Raises :class:`OSError`."""
    what = _UNFIT.sub("-", targets[0])[:40].strip("-.") if targets else "here"
    stem = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(at))}-{what}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, MOST_FILES)))
    name = next((name for name in names if not (folder / (name + SUFFIX)).exists()), stem)
    kept = path.rename(folder / (name + SUFFIX))
    _let_go(folder, kept)
    return kept


def _let_go(folder: Path, newest: Path) -> None:
    """Remove the oldest recordings that are too many or too much."""
    files = [path for path in autosaved(folder) if path != newest]
    sizes = list(_sizes([newest, *files[::-1]]))
    for number, path in enumerate(reversed(files), 2):
        if number > MOST_FILES or sum(sizes[:number]) > MOST_BYTES:
            path.unlink(missing_ok=True)
    for path in folder.glob(f"*{PART}"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > LEFT:
                path.unlink()


def _sizes(paths: list[Path]) -> Iterator[int]:
    for path in paths:
        size = 0
        with suppress(FileNotFoundError):  # another hangtop has let it go
            size = path.stat().st_size
        yield size
