"""What one rank is doing: its dumps in, one Activity out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from collectors.samples.stacks import BESIDE, Frame, StackDump, ThreadStack
from hangtop.diagnosis.stacks.frames import is_user, own, place
from hangtop.diagnosis.stacks.kernel import kernel_view
from hangtop.diagnosis.stacks.parsed import ParsedStack, parse
from hangtop.diagnosis.stacks.states import Activity, Cpu, Kind, Meaning, Role, ThreadNote, target_of
from hangtop.diagnosis.stacks.threads import main_thread, role, thread_that_counts
from hangtop.diagnosis.tables.thresholds import BUSY_CORES, IDLE_CORES

_SHORTEST_SPAN = 0.2
"""Seconds between two looks under which their CPU times (in hundredths) tell nothing."""
_STAYS: frozenset[Kind] = frozenset(("code", "data", "checkpoint", "compile", "sleep"))


class RankLook(NamedTuple):
    """One dump of a rank's own process, read, with the helper that it waits for."""

    dump: StackDump
    says: Activity
    role: Role
    """Of the thread that was judged."""
    own: tuple[Frame, ...]
    """Frames of that thread."""
    helper: StackDump | None
    user: tuple[Frame, ...]
    """User frames that show where it is, innermost first: a data worker's when the rank waits for that."""
    place: str
    """Folded frames joined; without the line of an innermost user frame that is itself running."""
    frames: tuple[str, ...]
    """The folded frames for people, outermost first, those of the helper behind the rank's own."""
    points: tuple[tuple[str, str, int], ...]
    """Python frames as they were, to tell moving from frozen."""


def activity(dumps: Sequence[StackDump]) -> Activity:
    """What a rank is doing, from all dumps of its process and its helpers: any number of looks, in any order.

    Raises :class:`ValueError` for no dumps at all.
    """
    if not dumps:
        raise ValueError("no dumps")
    ordered = sorted(dumps, key=lambda dump: dump.at)
    mine = [dump for dump in ordered if dump.pid == dump.rank_pid]
    helpers = [dump for dump in ordered if dump.pid != dump.rank_pid] if mine else []
    mine = mine or ordered
    newest = mine[-1]
    looks = [seen for dump in mine if (seen := _look_at(dump, helpers)) is not None]
    if not looks or looks[-1].dump is not newest:
        return _with_kernel(_without_frames(newest), mine, [])
    last = looks[-1]
    moving = None if len(looks) == 1 else any(seen.points != last.points for seen in looks)
    where = _stays(looks) if moving else next(iter(last.user), None)
    says = last.says
    found = says._replace(
        where=place(where) if where is not None else "",
        place=last.place,
        frames=last.frames,
        moving=moving,
        thread=last.role,
        others=_other_threads(last),
        gil=next((_note(newest, one) for one in newest.threads if one.owns_gil), None),
        helper_pid=last.helper.pid if last.helper is not None else None,
        native_would_tell=says.native_would_tell and not (moving and says.waits == "nothing"),
        since=[seen.dump.at for seen in takewhile(lambda seen: seen.place == last.place, reversed(looks))][-1],
    )
    child = target_of(newest.waiting_on).process
    found = _with_kernel(found, mine, [dump for dump in helpers if dump.pid == child])
    if last.helper is not None and (not newest.waiting_on or child is not None):
        return found._replace(waiting_on=last.helper.waiting_on)  # the process waits on it for whose end the rank waits
    return found


def _with_kernel(found: Activity, mine: Sequence[StackDump], child: Sequence[StackDump]) -> Activity:
    """Add what the kernel said in the newest look, and figures between looks.

    ``child``: dumps of the one process for whose end the rank waits.
    """
    newest = mine[-1]
    return found._replace(
        cpu=_cpu(mine), state=newest.state, wchan=newest.wchan, syscall=newest.syscall, waiting_on=newest.waiting_on,
        looks=len(mine), at=newest.at,
        carried=max((rate for rate in (_carried(mine), _carried(child)) if rate is not None), default=None),
    )  # fmt: skip


def _without_frames(newest: StackDump) -> Activity:
    """What the kernel says, and what py-spy said, is the evidence."""
    error, _, said = newest.error.partition(": ")
    known = kernel_view(newest)
    meaning = known.meaning if known.waits != "unknown" or known.meaning is Meaning.STOPPED else Meaning.CLOSED
    return Activity(
        "unknown", meaning, "", meaning.words, known.waits, frozenset(), error=error or "torn",
        said=said or "no main thread in the dump", since=newest.at,
    )  # fmt: skip


def _look_at(dump: StackDump, helpers: Sequence[StackDump]) -> RankLook | None:
    """Read one dump of a rank's own process, with those of its helpers of about the same moment; None without frames.

    Where main has handed the work to another thread, that one is judged (:func:`thread_that_counts`).
    """
    main = main_thread(dump)
    if main is None:
        return None
    stack, judged = thread_that_counts(dump, main, parse(main.frames, kernel_view(dump)))
    says, read = stack.says, stack.frames
    running = says.where if not says.by_frame else ""
    places = [line.rpartition(":")[0] if line == running else line for line in says.frames]
    helper, inner = _helper(dump, helpers) if says.waits == "helper" else (None, None)
    shown, user = says.frames, stack.user
    if helper is not None and inner is not None:
        title = f"[{'data worker' if says.kind == 'data' else 'child process'} {helper.pid}]"
        shown, user, read = (*shown, title, *inner.says.frames), inner.user, (*read, *inner.frames)
        places += [place(frame) for frame in reversed(user)]
    points = tuple((frame.name, frame.file, frame.line) for frame in read if not frame.native)
    return RankLook(dump, says, judged, stack.frames, helper, user, ";".join(places), shown, points)


def _helper(waits: StackDump, helpers: Sequence[StackDump]) -> tuple[StackDump, ParsedStack] | tuple[None, None]:
    """The helper that a rank waits for: one that is in user code, rather than one that waits for its orders.

    Where the kernel tells for which process it waits that one goes before all others: what it started may do the work.
    """
    child = target_of(waits.waiting_on).process
    for dump in sorted(helpers, key=lambda dump: (dump.pid != child, abs(dump.at - waits.at))):
        main = main_thread(dump)
        if main is None or (dump.pid != child and dump.syscall.startswith("accept")):  # a server
            continue
        found = parse(main.frames, kernel_view(dump))
        awaits_orders = found.says.waits == "helper" and len(found.user) == 1
        # of a helper that was started as ``python -c`` no line of the job is seen
        if any(frame.file != "<string>" for frame in found.user) and not awaits_orders:
            return dump, found
    return None, None


def _stays(looks: Sequence[RankLook]) -> Frame | None:
    """Of a rank that moves, the innermost user frame that all looks have in common."""
    newest = looks[-1].user
    paths = [[(frame.name, frame.file) for frame in reversed(seen.user)] for seen in looks]
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))))
    stays = all(seen.says.kind in _STAYS for seen in looks)
    return newest[len(newest) - shared if stays and shared else 0] if newest else None


def _cpu(mine: Sequence[StackDump]) -> Cpu:
    """What it used from the first look to the last; a rank that is ready to run and is given no CPU is not blocked.

    Of a process of a node that did not answer nothing is known: its state is empty then.
    """
    first, last = mine[0], mine[-1]
    span = last.at - first.at
    if first.pid != last.pid or span < _SHORTEST_SPAN or not (first.state and last.state):
        return "unknown"
    share = (last.cpu - first.cpu) / span
    if share <= IDLE_CORES:
        return "unknown" if first.state == last.state == "R" else "blocked"
    return "busy" if share >= BUSY_CORES else "mixed"


def _carried(dumps: Sequence[StackDump]) -> float | None:
    """By the last look and one before it, else by what was seen during the last."""
    told = [(dump.at, dump.carried) for dump in dumps if dump.carried is not None and dump.pid == dumps[-1].pid]
    at, carried = told[-1] if told else (0.0, 0)
    before = next((pair for pair in reversed(told) if at - pair[0] >= _SHORTEST_SPAN), None)
    if before is None:
        return dumps[-1].carrying if dumps else None
    return max(0, carried - before[1]) / (at - before[0])


def _note(dump: StackDump, thread: ThreadStack) -> ThreadNote:
    """Another thread. Where the main one sleeps at a futex, all that are not told of beside it do, too: at locks."""
    says = parse(thread.frames, main=thread is main_thread(dump)).says
    name = thread.name or f"thread {thread.os_thread_id or thread.thread_id}"
    told = [one.thread for one in dump.beside]
    locked = dump.syscall == "futex" and len(told) < BESIDE and thread.os_thread_id not in (*told, None, dump.pid)
    waits = "lock" if locked and not says.by_frame else says.waits
    return ThreadNote(name, role(thread, dump), says.where, waits)


def _other_threads(seen: RankLook) -> tuple[ThreadNote, ...]:
    """Threads besides main and the judged one that are in the job's own code."""
    main = main_thread(seen.dump)
    return tuple(
        _note(seen.dump, one)
        for one in seen.dump.threads
        if one is not main and own(one.frames) != seen.own and any(map(is_user, one.frames))
    )
