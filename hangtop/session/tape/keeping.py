"""What a session keeps of what it takes in: in a recording, and of the last while in a ring on this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop import __version__
from hangtop.session.options import SessionOptions
from hangtop.session.state.changes import Change
from hangtop.session.state.job_state import JobState

if TYPE_CHECKING:  # with zstandard: not before something is to be kept
    from hangtop.session.tape.recording import Recorder
    from hangtop.session.tape.ring import Ring

    Keeper = Recorder | Ring


class Keeping:
    """A recording and the past, each as long as there is one; a full disk ends them, not the watch."""

    def __init__(self, options: SessionOptions, state: JobState, now: Callable[[], float]) -> None:
        self._options = options
        self._state = state
        self._now = now
        self._recorder: Recorder | None = None
        self.recording_fault = ""
        """Why the recording ended before the session; empty while all is well."""
        self.past: Ring | None = None
        """What it took in lately; None while nobody asked for that to be kept, or it cannot be."""
        self.no_past = "the past is not kept"
        """Why, for people."""

    def record(self, path: Path) -> Recorder:
        """Write all that comes from now on to a file, until this is closed.

        Raises :class:`~hangtop.session.tape.recording.RecordingError`.
        """
        from hangtop.session.tape.blocks import About
        from hangtop.session.tape.recording import Recorder

        options = self._options
        about = About(
            __version__, list(options.targets), self._now(), options.interval, options.patience, options.label
        )
        self._recorder = Recorder(path, about)
        return self._recorder

    def keep_past(self) -> None:
        """Keep all that comes from now on for a while, so that a moment of it can be shown again."""
        from hangtop.session.tape.ring import Ring

        try:
            self.past = past = Ring(self._now())
            if self._state.nodes:
                deque(past.framing(self._now(), self._state), maxlen=0)
        except OSError as error:
            self.forget_past(f"the past cannot be kept: {error.strerror}")

    def forget_past(self, why: str) -> None:
        """Keep it no longer."""
        past, self.past, self.no_past = self.past, None, why
        if past is not None:
            past.close()
        self._state.changes.append(Change(self._now(), "", why, "hangtop"))

    def take(self, write: Callable[[Keeper], None]) -> None:
        """Add to the recording and to the past."""
        if self.past is not None:
            try:
                write(self.past)
            except OSError as error:
                self.forget_past(f"the past is no longer kept: {error.strerror}")
        self._record(write)

    def framing(self) -> Iterator[None]:
        """Copy the state for the past, when it is time to, in slices."""
        if self.past is None:
            return
        from hangtop.session.tape.ring import MOST_NODES

        if len(self._state.nodes) > MOST_NODES:
            self.forget_past(f"of a job of more than {MOST_NODES} nodes no past is kept: hangtop record keeps it")
            return
        try:
            yield from self.past.framing(self._now(), self._state)
        except OSError as error:
            self.forget_past(f"the past is no longer kept: {error.strerror}")

    def close(self) -> None:
        """End both."""
        if self.past is not None:
            self.past.close()
            self.past = None
        self._record(lambda recorder: recorder.close(self._now()))
        self._recorder = None

    def _record(self, write: Callable[[Recorder], None]) -> None:
        if self._recorder is None:
            return
        from hangtop.session.tape.recording import RecordingError

        try:
            write(self._recorder)
        except RecordingError as error:
            self._recorder = None
            self.recording_fault = str(error)
            self._state.changes.append(Change(self._now(), "", f"recording ended: {error}", "other"))
