"""What a session records: everything, in a file that the user named, or its *past*: a file that drops its oldest part.

A past lies in the user's state folder and stays there after the screen is closed; the last few pasts are kept.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop import __version__
from hangtop.session.options import SessionOptions
from hangtop.session.state import JobState

if TYPE_CHECKING:  # with SQLite: not before something is to be kept
    from hangtop.session.recorder import Recorder
    from hangtop.session.recording import Payload, Recording

LIMIT, KEPT = 128 << 20, 8
"""Bytes of a past (half an hour of 64 nodes with eight GPUs each, half a day of a small job), and pasts kept."""
MOST_NODES = 512
"""Nodes of the largest job with a past: for more nodes it would take a tenth of a core and cover a few minutes."""
SUFFIX = ".hangtop"
PATIENCE, STEP = 5.0, 0.01
"""Seconds that a reader, or the end of the session, waits for the file to be written; and between two checks."""


class Recordings:
    """The recording of a session, if there is one; a full disk ends the recording, not the watch."""

    def __init__(self, options: SessionOptions, state: JobState, now: Callable[[], float]) -> None:
        self._options = options
        self._state = state
        self._now = now
        self._named = False
        """The user named the file, and it stays whatever happens."""
        self._recorder: Recorder | None = None
        self.played: Recording | None = None
        """The recording that the session replays."""
        self.fault = ""
        """Why recording has ended or could not start; empty without a fault."""
        self.lost = 0
        """Samples that the file of the recording was too slow for."""
        self.kept: Path | None = None
        """File of the past once the session is closed; None if no node reported, or nothing could be kept."""

    @property
    def past(self) -> Recorder | Recording | None:
        """The recorded input, or the whole recording in a replay; None while nothing is recorded."""
        return self._recorder or self.played

    async def opened(self) -> Recording | None:
        """The same, opened for reading once all is written. Raises :class:`RecordingError`."""
        from hangtop.session.recording import Recording, RecordingError

        recorder, end = self._recorder, time.monotonic() + PATIENCE
        if recorder is None:
            return self.played
        while recorder.flush():
            if time.monotonic() > end:
                raise RecordingError(f"{recorder.path}: was not written within {PATIENCE:g} s")
            await asyncio.sleep(STEP)
        return await asyncio.to_thread(Recording, recorder.path)

    def record(self, path: Path) -> None:
        """Record all input from now on in a file, until :meth:`close`. Raises :class:`RecordingError`."""
        from hangtop.session.recording import RecordingError

        try:
            path.touch(mode=0o600, exist_ok=False)
        except OSError as error:  # an existing file is never overwritten
            raise RecordingError(f"{path}: cannot be written: {error.strerror}") from None
        self._named = True
        self._begin(path, inf, lambda: None)

    def keep_past(self, folder: Path | None = None, limit: float = LIMIT) -> None:
        """Keep a past from now on in a file of this folder, unless the session is recorded anyway."""
        if self.past is not None:
            return
        folder = folder or past_folder()
        began = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._now()))
        path = folder / f"{began}-{secrets.token_hex(3)}{SUFFIX}"

        def prepare() -> None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for old in pasts(folder)[: 1 - KEPT]:
                old.unlink(missing_ok=True)
            path.touch(mode=0o600, exist_ok=False)

        self._begin(path, limit, prepare)

    def _begin(self, path: Path, limit: float, prepare: Callable[[], object]) -> None:
        from hangtop.session.recorder import Recorder
        from hangtop.session.recording import About

        options = self._options
        targets = list(options.targets) or sorted(self._state.nodes)
        about = About(__version__, targets, self._state.interval, options.patience, options.label)
        self._recorder = Recorder(path, about, self._now(), keep=self._named, limit=limit, prepare=prepare)

    def take(self, node: str, payloads: Sequence[Payload]) -> None:
        """Record input of a node, if recording."""
        recorder = self._recorder
        if recorder is None:
            return
        lagged = recorder.lags
        try:
            recorder.add(self._now(), node, payloads)
        except OSError as error:
            self._end(f"{'recording ended' if self._named else 'the past is no longer kept'}: {error}")
        self.lost = recorder.lost
        if lagged != recorder.lags:
            what = "lags, and loses samples: the file is too slow" if recorder.lags else f"lost {self.lost:,} samples"
            self._state.note(self._now(), f"the recording {what}: {recorder.path}")
        if len(self._state.nodes) > MOST_NODES and not self._named:
            self._end(f"of a job of more than {MOST_NODES} nodes no past is kept: hangtop record keeps it")

    def close(self) -> None:
        """End the recording, and wait :data:`PATIENCE` seconds for it; removes a past in which no node reported."""
        recorder = self._recorder
        if recorder is not None:
            recorder.keep = self._named or any(node.seen_at for node in self._state.nodes.values())
            self._end("", PATIENCE)
            self.kept = recorder.path if recorder.keep and not (self._named or self.fault) else None

    def _end(self, why: str, seconds: float = 0.0) -> None:
        """End the recording and note a fault, ``why``; a fault removes a past, because the disk may be full."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            try:
                recorder.close(self._now(), seconds)
            except OSError as error:
                why = why or str(error)
        if why:
            self.fault = why
            self._state.note(self._now(), why)


def past_folder() -> Path:
    """The folder of pasts: ``$XDG_STATE_HOME/hangtop``, usually ``~/.local/state/hangtop``."""
    import platformdirs

    return platformdirs.user_state_path("hangtop")


def pasts(folder: Path) -> list[Path]:
    """The pasts in a folder, the most recently written last. Raises :class:`OSError`."""
    files = [path for path in folder.glob(f"*{SUFFIX}") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)
