"""A source of samples: what each one is, and how they tell that they have nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Optional, Tuple

if TYPE_CHECKING:  # every program that runs another one imports this module, for its exceptions
    from collectors.samples.control import Settings
    from collectors.samples.ranks import RankProcess


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


_OF_PROCESSES = ("RankProcess", "RankPulse", "Helper", "CpuWait", "InsidePulse", "InsideResult")
"""Kinds whose first field is the process that they speak of."""
IDENTITY: Dict[str, Tuple[int, ...]] = {
    **dict.fromkeys(_OF_PROCESSES, (0,)),
    **dict.fromkeys(("SourceState", "GpuFacts", "GpuSample", "GpuFabric", "FabricService", "StepCount"), (0,)),
    **dict.fromkeys(("Interface", "InterfaceCounters"), (0,)),
    **dict.fromkeys(
        ("Fault", "GpuFault", "NvlinkCounters", "PortFacts", "PortCounters", "Reading", "InsideResult"), (0, 1)
    ),
    **dict.fromkeys(("GpuProcesses", "Topology", "TcpCounters", "LogsRead", "HostFacts", "HostSample"), ()),
    "LogFile": (0, 2, 4),
    "CommProgress": (0, 1, 4, 5),
}
"""Positions of the fields that say *of what* a sample speaks. A kind that is not here is an event: always sent."""

Key = Tuple[object, ...]


def identity(sample: NamedTuple) -> Optional[Key]:
    """Key under which a later sample replaces this one; None for an event."""
    kind = type(sample).__name__
    fields = IDENTITY.get(kind)
    return None if fields is None else (kind, *[sample[field] for field in fields])


class ChangeFilter:
    """Lets a sample pass only when it differs from the last one of the same identity."""

    def __init__(self) -> None:
        self._last: Dict[Key, NamedTuple] = {}

    def changed(self, samples: Iterable[NamedTuple]) -> List[NamedTuple]:
        """Samples that are news, in order."""
        news: List[NamedTuple] = []
        for sample in samples:
            key = identity(sample)
            if key is None:
                if type(sample).__name__ in ("RankGone", "HelperGone"):
                    self._forget_process(sample[0])
            elif self._last.get(key) == sample:
                continue
            else:
                self._last[key] = sample
            news.append(sample)
        return news

    def forget(self, sample: NamedTuple) -> None:
        """Let this one pass again: it could not be sent."""
        key = identity(sample)
        if key is not None:
            self._last.pop(key, None)

    def _forget_process(self, pid: object) -> None:
        for key in [key for key in self._last if key[0] in _OF_PROCESSES and key[1] == pid]:
            del self._last[key]
