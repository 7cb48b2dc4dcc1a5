"""What a session records: all of it in a file that somebody named, or the last while in one whose oldest part goes.

The last while, the past, becomes a recording in the user's own folder when the screen is left; of those a few are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop import __version__
from hangtop.session.entries import About, Entry, Payload
from hangtop.session.options import SessionOptions, job_of_slurm
from hangtop.session.state.changes import Change
from hangtop.session.state.job_state import JobState

if TYPE_CHECKING:  # with zstandard and SQLite: not before something is to be kept
    from hangtop.session.recording import Recorder, Recording

LIMIT = 256 << 20
"""Bytes of the past: an hour of 64 nodes with eight GPUs each, a day of a small job."""
SPARE = 0.1
"""Of the room that is left on the disk, what the past may take."""
EVERY = 60.0
"""Seconds between two snapshots."""
SLICE = 8
"""Nodes of a snapshot that are copied in one go: some 3 ms."""
MOST_NODES = 512
"""Nodes of a job whose past is kept: beyond that it would take a tenth of a core, and reach back a few minutes."""
MOST_BYTES, MOST_FILES = 1 << 30, 32
"""Of all recordings that are kept when the screen is left; the oldest go."""
SUFFIX, PART = ".hangtop", ".part"
"""Of a recording that is kept, and of one that is being written."""
LEFT = 3600.0
"""Seconds after which nobody writes a ``.part`` any more."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class NotKeptError(Exception):
    """Nothing could be kept; the text says why."""


class Recordings:
    """The recording of a session, as long as there is one; a full disk ends it, not the watch."""

    def __init__(self, options: SessionOptions, state: JobState, now: Callable[[], float]) -> None:
        self._options = options
        self._state = state
        self._now = now
        self._named = False
        """It is in a file that somebody named."""
        self._snapshot_at = float("-inf")
        self.past: Recorder | Recording | None = None
        """What was taken in, as far back as it is kept, or, of a replay, all; None while nothing is kept."""
        self.no_past = "the past is not kept"
        """Why, for people."""
        self.fault = ""
        """Why a recording that somebody named ended before the session; empty while all is well."""

    def record(self, path: Path) -> Recorder:
        """Write all that comes from now on to a file, until this is closed. Raises RecordingError."""
        from hangtop.session.recording import Recorder

        self.past = recorder = Recorder(path, self._about())
        self._named = True
        for _ in self.snapshots():  # of what is known already
            pass
        return recorder

    def keep_past(self, folder: Path | None = None) -> None:
        """Keep what comes from now on for a while in a file of this folder, where it is not recorded anyway."""
        from hangtop.session.recording import Recorder, RecordingError

        if self.past is not None:
            return
        try:
            path = _half_written(folder or autosave_folder())
            limit = min(LIMIT, int(shutil.disk_usage(path.parent).free * SPARE))
            self.past = Recorder(path, self._about(), limit)
            for _ in self.snapshots():
                pass
        except OSError as error:
            self.forget_past(f"the past cannot be kept: {error.filename}: {error.strerror}")
        except RecordingError as error:
            self.forget_past(f"the past cannot be kept: {error}")

    def forget_past(self, why: str) -> None:
        """Keep it no longer."""
        self.no_past = why
        self._discard()
        self._state.changes.append(Change(self._now(), "", why))

    def take(self, node: str, payloads: Sequence[Payload]) -> None:
        """Add what was taken in."""
        if self.past is not None:
            self._write(lambda recorder: recorder.add(self._now(), node, payloads))

    def snapshots(self) -> Iterator[None]:
        """Write a snapshot when it is time to, in slices; to be called once a second."""
        nodes, now = tuple(self._state.nodes), self._now()
        if self.past is None:
            return
        if len(nodes) > MOST_NODES and not self._named:
            self.forget_past(f"of a job of more than {MOST_NODES} nodes no past is kept: hangtop record keeps it")
        if not nodes or now - self._snapshot_at < EVERY:
            return
        from hangtop.session.snapshot import snapshot_of

        self._snapshot_at = now
        self._write(lambda recorder: recorder.flush())
        entries = [Entry(now, "", dump) for dump in self._state.recorders.values()]
        for number, node in enumerate(nodes, 1):
            at = self._now()
            entries += [Entry(at, node, payload) for payload in snapshot_of(self._state, node, at)]
            if number % SLICE == 0:
                yield
        self._write(lambda recorder: recorder.snapshot(entries))

    def autosave(self, folder: Path) -> Path | None:
        """End the past, and keep it as a recording; None where no node was ever heard. Raises NotKeptError."""
        from hangtop.session.recording import Recorder, RecordingError

        if all(node.seen_at is None for node in self._state.nodes.values()):
            return None
        past = self.past
        if not isinstance(past, Recorder):
            raise NotKeptError(self.no_past)
        self.past, self.no_past = None, "it was kept as a recording"
        try:
            past.close(self._now())
            return _kept_as(past.path, folder, self._about().targets, self._now())
        except (OSError, RecordingError) as error:
            past.path.unlink(missing_ok=True)
            raise NotKeptError(str(error)) from None

    def close(self) -> None:
        """End it; of one that nobody named nothing is left."""
        if self._named:
            self._write(lambda recorder: recorder.close(self._now()))
        self._discard()

    def _about(self) -> About:
        options = self._options
        by_others = options.hostfile or options.via or job_of_slurm(options)
        targets = sorted(self._state.nodes) if by_others and not options.targets else options.targets
        return About(__version__, list(targets), self._now(), options.interval, options.patience, options.label)

    def _write(self, write: Callable[[Recorder], None]) -> None:
        from hangtop.session.recording import Recorder, RecordingError

        if isinstance(self.past, Recorder):
            try:
                write(self.past)
            except RecordingError as error:
                self.fault = str(error) if self._named else ""
                self.forget_past(f"{'recording ended' if self._named else 'the past is no longer kept'}: {error}")

    def _discard(self) -> None:
        """End it; of what nobody named nothing is left, and a recording that is replayed stays."""
        from hangtop.session.recording import Recorder

        past, self.past = self.past, None
        if isinstance(past, Recorder) and not self._named:
            past.discard()


def autosave_folder() -> Path:
    """Where they lie: ``$XDG_STATE_HOME/hangtop``, usually ``~/.local/state/hangtop``."""
    import platformdirs

    return platformdirs.user_state_path("hangtop")


def autosaved(folder: Path) -> list[Path]:
    """Recordings that are kept, the oldest first. Raises :class:`OSError`."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())


def _half_written(folder: Path) -> Path:
    """A name there for what is being recorded. Raises :class:`OSError` where the folder cannot be made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{os.getpid()}-{time.time_ns()}{PART}"


def _kept_as(path: Path, folder: Path, targets: Sequence[str], at: float) -> Path:
    """Give what was recorded its name: when it ended, and what was watched. Raises :class:`OSError`."""
    what = _UNFIT.sub("-", targets[0])[:40].strip("-.") if targets else "here"
    kept = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(at))}-{what}{SUFFIX}"
    kept = path.rename(kept.with_stem(f"{kept.stem}-{path.stem}") if kept.exists() else kept)
    _remove_oldest(folder)
    return kept


def _remove_oldest(folder: Path) -> None:
    """Remove the oldest recordings that are too many or too much, and parts that nobody writes any more."""
    held = 0
    with suppress(FileNotFoundError):  # another hangtop has removed it
        for number, path in enumerate(reversed(autosaved(folder))):
            held += path.stat().st_size
            if number >= MOST_FILES or (number and held > MOST_BYTES):
                path.unlink()
        for path in folder.glob(f"*{PART}"):
            if time.time() - path.stat().st_mtime > LEFT:
                path.unlink()
