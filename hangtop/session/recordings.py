"""What a session records: all of it in a file that somebody named, or the last while in one whose oldest part goes.

The last while, the past, lies in the user's own folder and stays there as a recording when the screen is left; of those
a few are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop import __version__
from hangtop.session.entries import About, Payload
from hangtop.session.options import SessionOptions, job_of_slurm
from hangtop.session.state import Change, JobState

if TYPE_CHECKING:  # with zstandard and SQLite: not before something is to be kept
    from hangtop.session.recording import Recorder, Recording

LIMIT = 256 << 20
"""Bytes of the past: an hour of 64 nodes with eight GPUs each, a day of a small job."""
SPARE = 0.1
"""Of the room that is left on the disk, what the past may take."""
MOST_NODES = 512
"""Nodes of a job whose past is kept: beyond that it would take a tenth of a core, and reach back a few minutes."""
MOST_BYTES, MOST_FILES = 1 << 30, 32
"""Of all pasts that are kept; the oldest go."""
SUFFIX = ".hangtop"
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class Recordings:
    """The recording of a session, as long as there is one; a full disk ends it, not the watch."""

    def __init__(self, options: SessionOptions, state: JobState, now: Callable[[], float]) -> None:
        self._options = options
        self._state = state
        self._now = now
        self._named = False
        """It is in a file that somebody named."""
        self._recorder: Recorder | None = None
        self.played: Recording | None = None
        """The recording that the session plays."""
        self.no_past = "the past is not kept"
        """Why, for people."""
        self.fault = ""
        """Why a recording that somebody named ended before the session; empty while all is well."""

    @property
    def past(self) -> Recorder | Recording | None:
        """What was taken in, as far back as it is kept, or, of a replay, all; None while nothing is kept."""
        return self._recorder or self.played

    def record(self, path: Path) -> Recorder:
        """Write all that comes from now on to a file, until this is closed. Raises RecordingError."""
        from hangtop.session.recording import Recorder

        self._named = True
        self._recorder = Recorder(path, self._about(), self._now())
        return self._recorder

    def keep_past(self, folder: Path | None = None) -> None:
        """Keep what comes from now on for a while in a file of this folder, where it is not recorded anyway."""
        from hangtop.session.recording import Recorder, RecordingError

        if self.past is not None:
            return
        about, folder = self._about(), folder or autosave_folder()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_oldest(folder)
            limit = min(LIMIT, int(shutil.disk_usage(folder).free * SPARE))
            self._recorder = Recorder(_new(folder, about.targets, self._now()), about, self._now(), limit)
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
        if self._recorder is None:
            return
        from hangtop.session.recording import RecordingError

        try:
            self._recorder.add(self._now(), node, payloads)
        except RecordingError as error:
            self.fault = str(error) if self._named else ""
            self.forget_past(f"{'recording ended' if self._named else 'the past is no longer kept'}: {error}")
        if len(self._state.nodes) > MOST_NODES and not self._named:
            self.forget_past(f"of a job of more than {MOST_NODES} nodes no past is kept: hangtop record keeps it")

    def autosave(self) -> Path | None:
        """End the past, and leave it as a recording; None where there is none, for ``no_past`` says why."""
        from hangtop.session.recording import RecordingError

        if self._recorder is None or self._named:
            return None
        path = self._recorder.path
        try:
            self._recorder.close(self._now())
        except RecordingError as error:
            self.forget_past(str(error))
            return None
        self._recorder, self.no_past = None, "it was kept as a recording"
        return path

    def close(self) -> None:
        """End it; of one that nobody named nothing is left."""
        from hangtop.session.recording import RecordingError

        if self._recorder is not None and self._named:
            try:
                self._recorder.close(self._now())
            except RecordingError as error:
                self.fault = str(error)
        self._discard()

    def _about(self) -> About:
        options = self._options
        by_others = options.hostfile or options.via or job_of_slurm(options)
        targets = sorted(self._state.nodes) if by_others and not options.targets else options.targets
        return About(__version__, list(targets), options.interval, options.patience, options.label)

    def _discard(self) -> None:
        """End it; of what nobody named nothing is left."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None and not self._named:
            recorder.discard()


def autosave_folder() -> Path:
    """Where they lie: ``$XDG_STATE_HOME/hangtop``, usually ``~/.local/state/hangtop``."""
    import platformdirs

    return platformdirs.user_state_path("hangtop")


def autosaved(folder: Path) -> list[Path]:
    """Recordings that are kept, the one that was written to last at the end. Raises :class:`OSError`."""
    if not folder.is_dir():
        return []
    files = [path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)


def _new(folder: Path, targets: Sequence[str], at: float) -> Path:
    """A file there that is called by when it begins, and what is watched."""
    what = _UNFIT.sub("-", targets[0])[:40].strip("-.") if targets else "here"
    return folder / f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(at))}-{what}-{os.getpid()}{SUFFIX}"


def _remove_oldest(folder: Path) -> None:
    """Remove the oldest recordings, until there is room for one more."""
    held = 0
    with suppress(FileNotFoundError):  # another hangtop has removed it
        for number, path in enumerate(reversed(autosaved(folder)), 1):
            held += path.stat().st_size
            if number >= MOST_FILES or held > MOST_BYTES:
                path.unlink()
