"""What one rank is doing: its dumps in, one Activity out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from collectors.samples.stacks import BESIDE, Frame, StackDump
from hangtop.diagnosis.stacks.frames import is_user, own, place
from hangtop.diagnosis.stacks.kernel import kernel_view
from hangtop.diagnosis.stacks.parsed import ParsedStack, parse
from hangtop.diagnosis.stacks.states import Activity, Meaning, Role, ThreadNote, target_of
from hangtop.diagnosis.stacks.threads import role, thread_name, thread_that_counts
from hangtop.diagnosis.tables.thresholds import IDLE_CORES

_SHORTEST_SPAN = 0.2
"""Seconds between two looks under which their CPU times (in hundredths) tell nothing."""
_LATELY_S, _LATE_LOOKS = 20.0, 3
"""Seconds, and looks at the least, that tell whether a rank moves: of two replicas one may have stopped since."""


class _Look(NamedTuple):
    """One dump of a rank's own process, read, with the helper that it waits for."""

    dump: StackDump
    stack: ParsedStack
    """Of the thread that was judged: main, or the one to which main has handed its work."""
    role: Role
    helper: StackDump | None
    inner: ParsedStack | None
    """Of the helper."""

    @property
    def user(self) -> tuple[Frame, ...]:
        """User frames that show where it is, innermost first: a data worker's when the rank waits for that."""
        return (self.inner or self.stack).user

    @property
    def points(self) -> tuple[tuple[object, ...], ...]:
        """Python frames as they were, to tell moving from frozen."""
        frames = (*self.stack.frames, *(self.inner.frames if self.inner else ()))
        return tuple(frame[:3] for frame in frames if not frame.native)

    @property
    def place(self) -> str:
        """Where the rank is, with where the helper is that it waits for."""
        return ";".join([self.stack.says.place, *(place(frame) for frame in reversed(self.user) if self.inner)])

    @property
    def frames(self) -> tuple[str, ...]:
        """The folded frames for people, outermost first, those of the helper behind the rank's own."""
        says = self.stack.says
        if self.inner is None or self.helper is None:
            return says.frames
        title = f"[{'data worker' if says.kind == 'data' else 'child process'} {self.helper.pid}]"
        return (*says.frames, title, *self.inner.says.frames)


def activity(dumps: Sequence[StackDump]) -> Activity:
    """What a rank is doing, from all dumps of its process and its helpers: any number of looks, in any order.

    Raises :class:`ValueError` for no dumps at all.
    """
    if not dumps:
        raise ValueError("no dumps")
    ordered = sorted(dumps, key=lambda dump: dump.at)
    mine = [dump for dump in ordered if dump.pid == dump.rank_pid] or ordered
    helpers = [dump for dump in ordered if dump.pid != mine[0].pid]
    newest = mine[-1]
    looks = [seen for dump in _untorn(mine) if (seen := _look_at(dump, helpers)) is not None]
    last = looks[-1] if looks and looks[-1].dump is newest else None
    child = target_of(newest.waiting_on).process
    rates = [_carried(mine), _carried([one for one in helpers if one.pid == child])]
    helper = last.helper if last is not None and (not newest.waiting_on or child is not None) else None
    return (_without_frames(newest) if last is None else _over_looks(looks, last))._replace(
        cpu=_cpu(mine), state=newest.state, wchan=newest.wchan, syscall=newest.syscall,
        waiting_on=(helper or newest).waiting_on,  # of a helper for whose end the rank waits, what that waits on
        looks=len(mine), at=newest.at, beside=newest.beside,
        carried=max((rate for rate in rates if rate is not None), default=None),
    )  # fmt: skip


def _over_looks(looks: Sequence[_Look], last: _Look) -> Activity:
    """What the frames of all looks say; the kernel's side is not yet in it."""
    says, dump = last.stack.says, last.dump
    late = [seen for seen in looks if seen.dump.at >= dump.at - _LATELY_S]
    late = late if len(late) >= _LATE_LOOKS else list(looks[-_LATE_LOOKS:])
    moving = None if len(looks) == 1 else any(seen.points != last.points for seen in late)
    where = next(iter(last.user), None)
    return says._replace(
        where=place(where) if where is not None else "",
        function=place(where, line=False) if where is not None else "",
        place=last.place,
        frames=last.frames,
        moving=moving,
        thread=last.role,
        others=_other_threads(last),
        gil=next((thread_name(one) for one in dump.threads if one.owns_gil), ""),
        helper_pid=last.helper.pid if last.helper is not None else None,
        since=[seen.dump.at for seen in takewhile(lambda seen: seen.place == last.place, reversed(looks))][-1],
    )


def _without_frames(newest: StackDump) -> Activity:
    """What the kernel says, and what py-spy said, is the evidence."""
    error, _, said = newest.error.partition(": ")
    meaning = kernel_view(newest) or Meaning.CLOSED
    if meaning.waits == "unknown" and meaning is not Meaning.STOPPED:
        meaning = Meaning.CLOSED
    return Activity(
        meaning, meaning.waits, error=error or "torn", said=said or "no main thread in the dump", since=newest.at
    )  # fmt: skip


def _untorn(mine: Sequence[StackDump]) -> Sequence[StackDump]:
    """Leave out a look that found no Python frames on the main thread, as of a program that is over, if it is alone.

    A look that does not stop the process now and then finds none where there are some; of a program that is over the
    next one finds none, too.
    """
    empty = [one for one in mine if one.main is not None and all(frame.native for frame in one.main.frames)]
    return [one for one in mine if len(empty) != 1 or one is not empty[0] or one.method != "nonblocking"]


def _look_at(dump: StackDump, helpers: Sequence[StackDump]) -> _Look | None:
    """Read one dump of a rank's own process, with those of its helpers of about the same moment; None without frames.

    Where main has handed the work to another thread, that one is judged (:func:`thread_that_counts`).
    """
    main = dump.main
    if main is None:
        return None
    stack, part = thread_that_counts(dump, main, parse(main.frames, kernel_view(dump)))
    helper, inner = _helper(dump, helpers) if stack.says.waits == "helper" else (None, None)
    return _Look(dump, stack, part, helper, inner)


def _helper(waits: StackDump, helpers: Sequence[StackDump]) -> tuple[StackDump, ParsedStack] | tuple[None, None]:
    """The helper that a rank waits for: one that is in user code, rather than one that waits for its orders.

    Where the kernel tells for which process it waits that one goes before all others: what it started may do the work.
    """
    child = target_of(waits.waiting_on).process
    for dump in sorted(helpers, key=lambda dump: (dump.pid != child, abs(dump.at - waits.at))):
        main = dump.main
        if main is not None and (dump.pid == child or not dump.syscall.startswith("accept")):  # that is a server
            found = parse(main.frames, kernel_view(dump))
            awaits_orders = found.says.waits == "helper" and len(found.user) == 1
            # of a helper that was started as ``python -c`` no line of the job is seen
            if any(frame.file != "<string>" for frame in found.user) and not awaits_orders:
                return dump, found
    return None, None


def _cpu(mine: Sequence[StackDump]) -> float | None:
    """Cores in use from the first look to the last; a rank that is ready to run and is given no CPU is not blocked.

    Of a process of a node that did not answer nothing is known: its state is empty then.
    """
    first, last = mine[0], mine[-1]
    span = last.at - first.at
    if first.pid != last.pid or span < _SHORTEST_SPAN or not (first.state and last.state):
        return None
    cores = (last.cpu - first.cpu) / span
    return None if cores <= IDLE_CORES and first.state == last.state == "R" else cores


def _carried(dumps: Sequence[StackDump]) -> float | None:
    """Bytes a second by the last look and one before it, else by what was seen during the last."""
    told = [(dump.at, dump.carried) for dump in dumps if dump.carried is not None and dump.pid == dumps[-1].pid]
    for at, carried in reversed(told):
        if told[-1][0] - at >= _SHORTEST_SPAN:
            return max(0, told[-1][1] - carried) / (told[-1][0] - at)
    return dumps[-1].carrying if dumps else None


def _other_threads(seen: _Look) -> tuple[ThreadNote, ...]:
    """Threads besides main and the judged one that are in the job's own code.

    Where the main thread sleeps at a futex, all that are not told of beside it do, too: at locks.
    """
    dump, main, notes = seen.dump, seen.dump.main, []
    told = [one.thread for one in dump.beside]
    at_locks = dump.syscall == "futex" and len(told) < BESIDE
    for thread in dump.threads:
        if thread is main or own(thread.frames) == seen.stack.frames or not any(map(is_user, thread.frames)):
            continue
        says = parse(thread.frames, main=False).says
        locked = at_locks and not says.by_frame and thread.os_thread_id not in (*told, None, dump.pid)
        notes.append(ThreadNote(thread_name(thread), role(thread, dump), says.where, "lock" if locked else says.waits))
    return tuple(notes)
