"""What single looks at one rank showed, and what looks with native frames add to those with Python's alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from collectors.samples.stacks import StackDump, ThreadWait
from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.states import Activity, Meaning


class Looks(Sequence[Activity]):
    """Looks at one rank, oldest first; each is read when it is asked for, as few of them are."""

    __slots__ = ("_known", "_looks")

    def __init__(self, dumps: Sequence[StackDump] = ()) -> None:
        """Take all dumps in order: each look begins with a dump of the rank itself, its helpers' follow."""
        begins = [place for place, dump in enumerate(dumps) if dump.pid == dump.rank_pid or not place]
        self._looks = [dumps[begin:end] for begin, end in zip(begins, [*begins[1:], len(dumps)], strict=False)]
        self._known: dict[int, Activity] = {}

    def __len__(self) -> int:
        return len(self._looks)

    @overload
    def __getitem__(self, index: int) -> Activity: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Activity]: ...

    def __getitem__(self, index: int | slice) -> Activity | Sequence[Activity]:
        places = range(len(self._looks))[index]
        return self._at(places) if isinstance(places, int) else [self._at(place) for place in places]

    def _at(self, place: int) -> Activity:
        if place not in self._known:
            self._known[place] = activity(self._looks[place])
        return self._known[place]

    @property
    def beside(self) -> Sequence[Sequence[ThreadWait]]:
        """For each look at the rank itself, its threads that do not sleep at a futex."""
        return [look[0].beside for look in self._looks]


NOTHING_SEEN = Looks()


def by_native(doing: Activity, dumps: Sequence[StackDump]) -> Activity | None:
    """What looks with native frames at the same place add; None where there are none, or they tell no more.

    Native frames change the folded place of a rank that has not moved, so they must not count as a look of their own.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    if not native or len(native) == len(dumps):
        return None
    told = activity(native)
    return None if told.error or told.kind == "unknown" or told.where != doing.where else with_meaning(doing, told)


def with_meaning(doing: Activity, told: Activity) -> Activity:
    """Take the meaning from a look with native frames at the same place; time and movement from the others."""
    return doing._replace(
        kind=told.kind, meaning=told.meaning, op=told.op, label=told.label, waits=told.waits,
        context=doing.context | told.context, decided_by=told.decided_by, holder=told.holder or doing.holder,
        frames=told.frames, native_would_tell=False,
    )  # fmt: skip


def waits_for_gpu(doing: Activity) -> Activity:
    """The same as a wait for its own GPU, as that tells."""
    meaning = Meaning.GPU_FULL
    return doing._replace(
        kind=meaning.kind, meaning=meaning, waits=meaning.waits, label=meaning.words, native_would_tell=False
    )
