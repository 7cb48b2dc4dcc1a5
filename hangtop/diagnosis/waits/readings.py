"""What single looks at one rank showed, each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from collectors.samples.stacks import StackDump, ThreadWait
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.states import Activity


class Readings(Sequence[Activity]):
    """What single looks at one rank showed, oldest first; read when asked for, as few of them are."""

    __slots__ = ("_begin", "_dumps", "_known")

    def __init__(self, dumps: Sequence[StackDump] = ()) -> None:
        """Take all dumps in order: each look begins with a dump of the rank itself, its helpers' follow."""
        self._dumps = dumps
        self._begin = [place for place, dump in enumerate(dumps) if dump.pid == dump.rank_pid or not place]
        self._known: dict[int, Activity] | None = None

    def __len__(self) -> int:
        return len(self._begin)

    @overload
    def __getitem__(self, index: int) -> Activity: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Activity]: ...

    def __getitem__(self, index: int | slice) -> Activity | Sequence[Activity]:
        places = range(len(self._begin))[index]
        return self._at(places) if isinstance(places, int) else [self._at(place) for place in places]

    def _at(self, place: int) -> Activity:
        if self._known is None:
            self._known = {}
        known = self._known.get(place)
        if known is None:
            end = self._begin[place + 1] if place + 1 < len(self._begin) else len(self._dumps)
            known = self._known[place] = activity(self._dumps[self._begin[place] : end])
        return known

    @property
    def beside(self) -> Sequence[Sequence[ThreadWait]]:
        """For each look at the rank itself, its threads that do not sleep at a futex."""
        return [self._dumps[place].beside for place in self._begin]

    @property
    def helpers(self) -> tuple[int, ...]:
        """Processes that the rank had started and that were looked at, too, oldest look first."""
        return tuple(dump.pid for dump in self._dumps if dump.pid != dump.rank_pid)


NOTHING_SEEN = Readings()


def by_native(doing: Activity, dumps: list[StackDump]) -> Activity | None:
    """What looks with native frames at the same place add; None where there are none, or they tell no more.

    Native frames change the folded place of a rank that has not moved, so they must not count as a look of their own.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    if not native or len(native) == len(dumps):
        return None
    told = activity(native)
    if told.error or told.kind == "unknown" or told.where != doing.where:
        return None
    return with_meaning(doing, told)


def with_meaning(doing: Activity, told: Activity) -> Activity:
    """Take the meaning from a look with native frames at the same place; time and movement from the others."""
    return doing._replace(
        kind=told.kind, meaning=told.meaning, op=told.op, label=told.label, waits=told.waits,
        context=doing.context | told.context, decided_by=told.decided_by, holder=told.holder or doing.holder,
        frames=told.frames, native_would_tell=False,
    )  # fmt: skip
