"""What a session took in lately, kept as a recording when it ends: few of them, never more than the disk can spare."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from hangtop import __version__
from hangtop.session.options import job_of_slurm
from hangtop.session.session import Session
from hangtop.session.tape.blocks import HEADER, About, BlockWriter, RecordedMark
from hangtop.session.tape.opening import link_of, opening
from hangtop.session.tape.recording import MAGIC
from hangtop.session.tape.ring import Keyframe, Ring, RingFile, thawed

MOST_BYTES = 1 << 30
"""Of all recordings that are kept, …"""
MOST_FILES = 32
"""… and their number: the oldest go."""
SPARE = 0.1
"""Of the room that is left on the disk, what one of them may take at most."""
SUFFIX = ".hangtop"
PART = ".part"
"""Of one that is being written, …"""
LEFT = 3600.0
"""… and the seconds after which nobody does any more."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class Kept(NamedTuple):
    """One recording that is kept."""

    path: Path
    seconds: float
    """That it covers."""
    bytes: int


class NotKeptError(Exception):
    """Nothing could be kept; the text says why."""


def kept_folder() -> Path:
    """Where they lie: ``$XDG_STATE_HOME/hangtop``, usually ``~/.local/state/hangtop``."""
    import platformdirs

    return platformdirs.user_state_path("hangtop")


def kept_files(folder: Path) -> list[Path]:
    """Recordings that are kept, the oldest first. Raises :class:`OSError`."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())


def keep(session: Session, folder: Path) -> Kept | None:
    """Keep what a session still has of its past; None where no node was ever heard.

    Raises :class:`NotKeptError`. To be called on the event loop before the session is closed: so the past stands still.
    """
    if all(node.seen_at is None for node in session.state.nodes.values()):
        return None
    past = session.keeping.past
    if past is None:
        raise NotKeptError(session.keeping.no_past)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        room = int(shutil.disk_usage(folder).free * SPARE)
        begin = _begin(past, min(room, MOST_BYTES))
        if begin is None:
            raise NotKeptError(f"{folder}: the disk has too little room left")
        kept = _written(session, begin, folder / _name(session, folder))
        _let_go(folder, kept.path)
    except OSError as error:
        raise NotKeptError(f"{error.filename or folder}: {error.strerror}") from None
    return kept


class _Begin(NamedTuple):
    """From where on the past has room."""

    frame: Keyframe
    parts: tuple[RingFile, ...]


def _begin(past: Ring, room: int) -> _Begin | None:
    parts = past.parts()
    for first, part in enumerate(parts):
        if part.frames and sum(each.packed for each in parts[first:]) <= room:
            return _Begin(part.frames[0], parts[first:])
    return None


def _name(session: Session, folder: Path) -> str:
    """When it ended, and what was watched; of what nobody else has taken."""
    targets = _watched(session)
    what = _UNFIT.sub("-", targets[0])[:40].strip("-.") if targets else "here"
    stem = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(session.now()))}-{what}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, MOST_FILES)))
    return next((name + SUFFIX for name in names if not (folder / (name + SUFFIX)).exists()), stem + SUFFIX)


def _watched(session: Session) -> tuple[str, ...]:
    """Nodes as they were named; where a Slurm job, a host file or labels named them, those that were found."""
    options = session.options
    by_others = options.hostfile or options.via or job_of_slurm(options)
    return tuple(sorted(session.state.nodes)) if by_others and not options.targets else options.targets


def _written(session: Session, begin: _Begin, path: Path) -> Kept:
    part = path.with_name(f"{path.stem}.{os.getpid()}{PART}")
    try:
        # nobody else's to read: logs and command lines are in it
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(MAGIC)
            _write(session, begin, file)
            size = file.tell()
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return Kept(path, session.now() - begin.frame.at, size)


def _write(session: Session, begin: _Begin, file: BinaryIO) -> None:
    options, first = session.options, begin.frame.at
    about = About(__version__, list(_watched(session)), first, options.interval, options.patience, options.label)
    writer = BlockWriter(file)
    writer.add(first, "", "about", about)
    _open(session, begin.frame, writer)
    writer.flush()
    for part in begin.parts:
        for block in part.writer.blocks:
            file.write(HEADER.pack(block.size, block.unpacked, block.first, block.last))
            file.write(os.pread(part.file.fileno(), block.size, block.offset))
    writer.add(session.now(), "", "about", about)
    writer.flush()


def _open(session: Session, frame: Keyframe, writer: BlockWriter) -> None:
    """What was known when it begins; nothing where it begins with the session."""
    state, first = session.state, frame.at
    if not frame.nodes:
        return
    for name, copy in frame.nodes.items():
        node = thawed(copy)
        progress = [one for (where, _, _), one in frame.progress.items() if where == name]
        events = [one for where, one in state.events if where == name and one.at is not None and one.at < first]
        writer.link(first, link_of(node, node.since))
        writer.samples(first, name, opening(node, first, progress, events))
    for dump in frame.recorders.values():
        writer.witness(first, dump)
    for look in state.ras:
        if look.at < first:
            writer.witness(first, look.value)
    for node_name, stack in state.stacks:
        if stack.at < first:
            writer.stacks(first, node_name, [stack])
    for change in state.changes:
        if change.kind == "mark" and change.at < first:
            writer.mark(first, RecordedMark(change.at, change.text))


def _let_go(folder: Path, newest: Path) -> None:
    """Remove the oldest recordings that are too many or too much."""
    files = [path for path in kept_files(folder) if path != newest]
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
