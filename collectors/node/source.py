"""Base class of sources of samples, and the exceptions by which a source reports that it has no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterable, NamedTuple, Tuple

if TYPE_CHECKING:  # every program that runs another one imports this module, for its exceptions
    from collectors.samples.ranks import RankProcess
    from collectors.samples.stream import Settings


class Unavailable(Exception):
    """A source has no data; the text says why."""

    state = ""
    """State of the source, as in :class:`collectors.samples.stream.SourceState`."""
    age = 0.0
    """Seconds since its last answer."""


class Absent(Unavailable):
    """There is nothing to read here (no driver, no HCA, no such tool); the text says what is missing."""

    state = "absent"


class Denied(Unavailable):
    """The data exists but may not be read; the text says which permission is missing."""

    state = "denied"


class NotResponding(Unavailable):
    """A driver, tool or file system does not respond."""

    state = "late"

    def __init__(self, what: str, age: float = 0.0) -> None:
        """``what`` is the name of the driver, tool or file system."""
        super().__init__("no answer from " + what)
        self.age = age


class Failed(Unavailable):
    """A driver or tool answered with an error, which is the text."""

    state = "failed"


class Shared:
    """Data shared between sources. Each attribute has one writer, which replaces it whole; all sources may read it."""

    def __init__(self) -> None:
        self.ranks: Tuple[RankProcess, ...] = ()
        """Living ranks on this node, including those without a rank number; written by source ``ranks``."""
        self.versions: Dict[int, Dict[str, str]] = {}
        """Library versions of each rank, by pid; written by source ``software``."""
        self.sm_shares: Dict[Tuple[str, int], int] = {}
        """Per cent of the SMs used by each process, by bus key and pid; written by source ``nvml``."""


class Source:
    """One source of samples. It runs in a thread of its own; only that thread calls its methods."""

    name = ""
    period = 0.0
    """Seconds between reads; 0 is every tick. May change from read to read."""
    deadline = 5.0
    """Seconds after which a read is reported as late. It is not interrupted."""
    retry = 30.0
    """Seconds until the next read after one without data or with a failure. May change from read to read."""

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        self.shared = shared
        self.proc = proc
        self.sys = sys

    def configure(self, settings: Settings) -> None:
        """Take new settings; called before the first read and before the read after each change."""

    def read(self, now: float) -> Iterable[NamedTuple]:
        """Current samples (``now`` is the wall clock).

        Raises :class:`Unavailable` without data; samples yielded before still count. The next read is ``retry`` seconds
        later.
        """
        raise NotImplementedError
