"""A source of samples: what each one is, and how they tell that they have nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterable, NamedTuple, Tuple

if TYPE_CHECKING:  # every program that runs another one imports this module, for its exceptions
    from collectors.samples.ranks import RankProcess
    from collectors.samples.stream import Settings


class Unavailable(Exception):
    """A source has nothing to say; the text says why."""

    state = ""
    """Of the source, as :class:`collectors.samples.stream.SourceState` has it."""
    age = 0.0
    """How many seconds ago it answered last."""


class Absent(Unavailable):
    """There is nothing to read here (no driver, no HCA, no such tool); the text says what is missing."""

    state = "absent"


class Denied(Unavailable):
    """It is there but may not be read; the text says what right is missing."""

    state = "denied"


class NotResponding(Unavailable):
    """It is there but does not answer."""

    state = "late"

    def __init__(self, what: str, age: float = 0.0) -> None:
        """``what`` names it."""
        super().__init__("no answer from " + what)
        self.age = age


class Failed(Unavailable):
    """It is there but gives an error for an answer; the text is that error."""

    state = "failed"


class Shared:
    """What sources tell each other. Each attribute has one writer, which replaces it whole; anyone may read it."""

    def __init__(self) -> None:
        self.ranks: Tuple[RankProcess, ...] = ()
        """The ranks that are alive here, and processes of jobs without a number; written by the source ``ranks``."""
        self.versions: Dict[int, Dict[str, str]] = {}
        """Versions of the libraries of each rank by pid, written by the source ``software``."""
        self.sm_shares: Dict[Tuple[str, int], int] = {}
        """Per cent of the SMs that each process uses, by bus key and pid, written by the source ``nvml``."""


class Source:
    """One source of samples. It runs in a thread of its own; only that thread calls its methods."""

    name = ""
    period = 0.0
    """Seconds between looks; 0 is every tick. May change from look to look."""
    deadline = 5.0
    """Seconds after which a look is reported as late. It is not interrupted."""
    retry = 30.0
    """Seconds until the next look after one that had nothing to read, or failed. May change from look to look."""

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        self.shared = shared
        self.proc = proc
        self.sys = sys

    def configure(self, settings: Settings) -> None:
        """Take new settings; called before the first look and before the look after each change."""

    def look(self, now: float) -> Iterable[NamedTuple]:
        """Samples of this moment (``now`` is the wall clock).

        Raises :class:`Unavailable` when there is nothing to read; what it yielded before that counts. It is asked again
        ``retry`` seconds later.
        """
        raise NotImplementedError
