"""What a session records: all of it in a file that somebody named, or the last while in one whose oldest part goes.

The last while, the past, lies in the user's own folder and stays there when the screen is left; a few of them are kept.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop import __version__
from hangtop.session.options import SessionOptions
from hangtop.session.state import JobState

if TYPE_CHECKING:  # with SQLite: not before something is to be kept
    from hangtop.session.recording import Payload, Recorder, Recording

LIMIT, KEPT = 128 << 20, 8
"""Bytes of a past: half an hour of 64 nodes with eight GPUs each, half a day of a small job; and how many are kept."""
MOST_NODES = 512
"""Nodes of a job whose past is kept: beyond that it would take a tenth of a core, and reach back a few minutes."""
SUFFIX = ".hangtop"


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
        self.fault = ""
        """Why nothing is recorded any more, or could be; empty while all is well."""
        self.kept: Path | None = None
        """Where the past is once the session is closed; None where nothing was seen, or nothing could be kept."""

    @property
    def past(self) -> Recorder | Recording | None:
        """What was taken in, as far back as it is kept, or, of a replay, all; None while nothing is kept."""
        return self._recorder or self.played

    def opened(self) -> Recording | None:
        """The same, as far as it was written, to be read."""
        from hangtop.session.recording import Recording

        if self._recorder is None:
            return self.played
        self._recorder.flush()
        return Recording(self._recorder.path)

    def record(self, path: Path) -> None:
        """Write all that comes from now on to a file, until this is closed. Raises :class:`RecordingError`."""
        self._named = True
        self._begin(path)

    def keep_past(self, folder: Path | None = None, limit: float = LIMIT) -> None:
        """Keep what comes from now on for a while in a file of this folder, where it is not recorded anyway."""
        if self.past is not None:
            return
        folder = folder or past_folder()
        began = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._now()))
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for old in pasts(folder)[: 1 - KEPT]:
                old.unlink(missing_ok=True)
            self._begin(folder / f"{began}-{secrets.token_hex(3)}{SUFFIX}", limit)
        except OSError as error:
            self._end(f"the past cannot be kept: {error}")

    def _begin(self, path: Path, limit: float = float("inf")) -> None:
        from hangtop.session.recording import About, Recorder

        options = self._options
        targets = list(options.targets) or sorted(self._state.nodes)
        about = About(__version__, targets, self._state.interval, options.patience, options.label)
        self._recorder = Recorder(path, about, self._now(), limit)

    def take(self, node: str, payloads: Sequence[Payload]) -> None:
        """Add what was taken in."""
        if self._recorder is None:
            return
        try:
            self._recorder.add(self._now(), node, payloads)
        except OSError as error:
            self._end(f"{'recording ended' if self._named else 'the past is no longer kept'}: {error}")
        if len(self._state.nodes) > MOST_NODES and not self._named:
            self._end(f"of a job of more than {MOST_NODES} nodes no past is kept: hangtop record keeps it")

    def close(self) -> None:
        """End it; a past in which no node spoke is removed."""
        self._end("")

    def _end(self, why: str) -> None:
        """End it, and say why, if it is a fault; of a past nothing is left then, as the disk may be full."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            try:
                recorder.close(self._now())
            except OSError as error:
                why = why or str(error)
            if not self._named and not why and any(node.seen_at for node in self._state.nodes.values()):
                self.kept = recorder.path
            elif not self._named:
                recorder.path.unlink(missing_ok=True)
        if why:
            self.fault = why
            self._state.note(self._now(), why)


def past_folder() -> Path:
    """Where they lie: ``$XDG_STATE_HOME/hangtop``, usually ``~/.local/state/hangtop``."""
    import platformdirs

    return platformdirs.user_state_path("hangtop")


def pasts(folder: Path) -> list[Path]:
    """Pasts that are kept, the one that was written to last at the end. Raises :class:`OSError`."""
    files = [path for path in folder.glob(f"*{SUFFIX}") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)
