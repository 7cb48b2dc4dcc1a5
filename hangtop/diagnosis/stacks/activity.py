"""What one rank is doing: its dumps in, one Activity out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.busy import is_blocked, is_busy
from hangtop.diagnosis.stacks.frames import function, is_in, is_user, own, owner_class, place
from hangtop.diagnosis.stacks.kernel import FILE_LOCKS, kernel_view
from hangtop.diagnosis.stacks.parsed import ParsedStack, folded, parse
from hangtop.diagnosis.stacks.states import Activity, Cpu, Kind, Meaning, Role, TargetKind, ThreadNote, target_of
from hangtop.diagnosis.stacks.threads import (
    at_a_queue,
    main_thread,
    may_bring,
    role,
    thread_that_counts,
)

_SHORTEST_SPAN = 0.2
"""Seconds between two looks under which their CPU times (in hundredths) tell nothing."""
_SAME_CLASS = 3
_FED_BY_A_THREAD = frozenset((
    Meaning.QUEUE, Meaning.QUEUE_TAKEN, Meaning.PROCESS_QUEUE, Meaning.FUTURE, Meaning.THREAD, Meaning.THREAD_POOL,
    Meaning.EVENT,
))  # fmt: skip
"""Waits that another thread of the process ends by its work."""
_STAYS: frozenset[Kind] = frozenset(("code", "data", "checkpoint", "compile", "evaluation", "sleep"))
_NO_FILE = "<string>"
"""File of the frames of ``python -c``: of a helper, it is how it was started."""
_ACCEPTS = ("accept", "accept4")
"""Calls in which a server waits for the next connection."""
_RUN, _STARTED_IN = "run", "multiprocessing/process.py"


class RankLook(NamedTuple):
    """One dump of a rank's own process, read, with the helper that it waits for."""

    dump: StackDump
    stack: ParsedStack
    role: Role
    helper: StackDump | None
    helper_stack: ParsedStack | None

    @property
    def user(self) -> tuple[Frame, ...]:
        """User frames that show where it is, innermost first: a data worker's when the rank waits for that."""
        if self.helper_stack is not None and self.helper_stack.user:
            return self.helper_stack.user
        return self.stack.user

    @property
    def place(self) -> str:
        """Folded frames joined; without the line of an innermost user frame that is itself running."""
        return _place(self.stack, self.helper_stack)

    @property
    def raw(self) -> tuple[tuple[str, str, int], ...]:
        """Frames as they were, to tell moving from frozen."""
        return _raw(self.stack, self.helper_stack)


@lru_cache(maxsize=4096)
def _place(stack: ParsedStack, helper: ParsedStack | None) -> str:
    lines = list(folded(stack))
    if stack.decided_by is None and lines and stack.user:
        running = place(stack.user[0])
        lines = [line.rpartition(":")[0] if line == running else line for line in lines]
    if helper is not None:
        lines.extend(place(frame) for frame in reversed(helper.user))
    return ";".join(lines)


@lru_cache(maxsize=4096)
def _raw(stack: ParsedStack, helper: ParsedStack | None) -> tuple[tuple[str, str, int], ...]:
    found = [(frame.name, frame.file, frame.line) for frame in stack.frames if not frame.native]
    if helper is not None:
        found.extend((frame.name, frame.file, frame.line) for frame in helper.frames)
    return tuple(found)


def look_at(dump: StackDump, helpers: Sequence[StackDump] = ()) -> RankLook | None:
    """Read one dump of a rank's own process, with those of its helpers of about the same moment; None without frames.

    Where main has handed the work to another thread, that one is judged (:func:`thread_that_counts`).
    """
    main = main_thread(dump)
    if main is None:
        return None
    stack, judged = thread_that_counts(dump, main, parse(main.frames, kernel_view(dump)))
    helper = _helper(dump, helpers) if stack.waits == "helper" else None
    return RankLook(dump, stack, judged, *(helper or (None, None)))


def _helper(waits: StackDump, helpers: Sequence[StackDump]) -> tuple[StackDump, ParsedStack] | None:
    """The helper that a rank waits for: one that is in user code, rather than one that waits for its orders.

    Where the kernel tells for which process it waits that one goes before all others: what it started may do the work.
    """
    wanted = [dump for dump in helpers if dump.pid == _child_of(waits)]
    others = [dump for dump in helpers if dump not in wanted and dump.syscall not in _ACCEPTS]
    for dump in (*wanted, *others):
        main = main_thread(dump)
        if main is None:
            continue
        found = parse(main.frames, kernel_view(dump))
        if any(frame.file != _NO_FILE for frame in found.user) and not _awaits_orders(found):
            return dump, found
    return None


def _child_of(dump: StackDump) -> int | None:
    """The process for whose end a call waits."""
    target = target_of(dump.waiting_on)
    return target.pid if target.kind is TargetKind.PROCESS else None


def _awaits_orders(stack: ParsedStack) -> bool:
    """Whether a helper waits at its pipe or queue in the very function that it was started to run: for the rank."""
    if stack.waits != "helper" or len(stack.user) != 1:
        return False
    outside = stack.frames[stack.frames.index(stack.user[0]) + 1 :]
    return bool(outside) and function(outside[0].name) == _RUN and is_in(outside[0].file, _STARTED_IN)


def activity(dumps: Sequence[StackDump]) -> Activity:
    """What a rank is doing, from all dumps of its process and its helpers: any number of looks, in any order.

    Raises :class:`ValueError` for no dumps at all.
    """
    if not dumps:
        raise ValueError("no dumps")
    ordered = sorted(dumps, key=lambda dump: dump.at) if len(dumps) > 1 else dumps
    of_rank = [dump for dump in ordered if dump.pid == dump.rank_pid]
    mine, helped = of_rank or ordered, len(of_rank) < len(ordered)
    looks = [seen for dump in mine if (seen := look_at(dump, _near(ordered, dump) if helped else ())) is not None]
    newest = mine[-1]
    if not looks or looks[-1].dump is not newest:
        return _unknown(newest, mine)
    child = [dump for dump in ordered if dump.pid == _child_of(newest)] if helped else []
    return _of_looks(looks, mine, child)


def _near(dumps: Sequence[StackDump], of: StackDump) -> list[StackDump]:
    """Dumps of a process's helpers, nearest in time first."""
    helpers = [dump for dump in dumps if dump.rank_pid == of.pid and dump.pid != of.pid]
    return sorted(helpers, key=lambda dump: abs(dump.at - of.at))


def _of_looks(looks: Sequence[RankLook], mine: Sequence[StackDump], child: Sequence[StackDump]) -> Activity:
    """``child``: dumps of the one process for whose end the rank waits."""
    last = looks[-1]
    stack, dump = last.stack, last.dump
    notes, holder_stack, holder = _threads(last)
    alike = all(seen.stack is stack and seen.helper_stack is last.helper_stack for seen in looks)
    kind, meaning, label, waits = stack.kind, stack.meaning, stack.label, stack.waits
    where = next(iter(last.user), None) if alike else _stays(looks)
    if kind == "code" and holder is not None:
        meaning, kind, waits, label = Meaning.LOCK, "lock", "lock", Meaning.LOCK.words
    if kind == "lock" and holder_stack is not None and holder_stack.kind in ("data", "checkpoint"):
        # the thread that should feed the queue is the one that is stuck
        kind, where = holder_stack.kind, holder_stack.frame or where
        label = f"{label}: thread {holder.name if holder else ''} {holder_stack.label}"
    moving = None if len(looks) == 1 else not alike and any(seen.raw != last.raw for seen in looks)
    return Activity(
        kind=kind,
        meaning=meaning,
        op=stack.op,
        label=label,
        waits=waits,
        context=stack.context,
        group=stack.group,
        world=stack.world,
        peer=stack.peer,
        members=stack.members,
        behind=stack.behind,
        frame=where,
        where=place(where) if where is not None else "",
        decided_by=stack.decided_by,
        place=last.place,
        frames=_frames(last),
        cpu=_cpu(mine),
        moving=moving,
        thread=last.role,
        others=notes,
        gil=_gil(dump),
        holder=holder,
        helper_pid=last.helper.pid if last.helper is not None else None,
        by_name=stack.by_name and kind == stack.kind,
        native_would_tell=stack.native_would_tell and not (moving and stack.waits == "nothing"),
        state=dump.state,
        wchan=dump.wchan,
        syscall=dump.syscall,
        waiting_on=_waiting_on(dump, last.helper),
        looks=len(mine),
        at=dump.at,
        since=looks[0].dump.at if alike else _since(looks),
        carried=max((rate for rate in (_carried(mine), _carried(child)) if rate is not None), default=None),
    )


def _unknown(newest: StackDump, mine: Sequence[StackDump]) -> Activity:
    """No frames: what the kernel says, and what py-spy said, is the evidence."""
    error, _, said = newest.error.partition(": ")
    known = kernel_view(newest)
    meaning = known.meaning if known.waits != "unknown" or known.meaning is Meaning.STOPPED else Meaning.CLOSED
    return Activity(
        kind="unknown",
        meaning=meaning,
        op="",
        label=meaning.words,
        waits=known.waits,
        context=frozenset(),
        cpu=_cpu(mine),
        state=newest.state,
        wchan=newest.wchan,
        syscall=newest.syscall,
        waiting_on=newest.waiting_on,
        error=error or "torn",
        said=said or "no main thread in the dump",
        looks=len(mine),
        at=newest.at,
        since=newest.at,
        carried=_carried(mine),
    )


def _frames(seen: RankLook) -> tuple[str, ...]:
    lines = folded(seen.stack)
    if seen.helper is None or seen.helper_stack is None:
        return lines
    helper = "data worker" if seen.stack.kind == "data" else "child process"
    return (*lines, f"[{helper} {seen.helper.pid}]", *folded(seen.helper_stack))


def _stays(looks: Sequence[RankLook]) -> Frame | None:
    """Innermost user frame; of a rank that moves, the innermost that all looks have in common."""
    newest = looks[-1].user
    if not newest:
        return None
    paths = [[(frame.name, frame.file) for frame in reversed(seen.user)] for seen in looks]
    if {seen.stack.kind for seen in looks} - _STAYS:
        return newest[0]
    common = 0
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        common += 1
    return newest[len(newest) - common] if common else newest[0]


def _waiting_on(dump: StackDump, helper: StackDump | None) -> str:
    """What its call waits on; what that of the process waits on, where it waits for the end of that one."""
    if helper is None or (dump.waiting_on and _child_of(dump) is None):
        return dump.waiting_on
    return helper.waiting_on


def _since(looks: Sequence[RankLook]) -> float:
    since = looks[-1].dump.at
    for seen in reversed(looks):
        if seen.place != looks[-1].place:
            break
        since = seen.dump.at
    return since


def _cpu(mine: Sequence[StackDump]) -> Cpu:
    """What it used from the first look to the last; a rank that is ready to run and is given no CPU is not blocked.

    Of a process of a node that did not answer nothing is known: its state is empty then.
    """
    first, last = mine[0], mine[-1]
    span = last.at - first.at
    if first.pid != last.pid or span < _SHORTEST_SPAN or not (first.state and last.state):
        return "unknown"
    share = (last.cpu - first.cpu) / span
    if is_blocked(share):
        return "unknown" if first.state == last.state == "R" else "blocked"
    return "busy" if is_busy(share) else "mixed"


def _carried(mine: Sequence[StackDump]) -> float | None:
    """By the last look and one before it, else by what was seen during the last."""
    if not mine:
        return None
    told = [(dump.at, dump.carried) for dump in mine if dump.carried is not None and dump.pid == mine[-1].pid]
    at, carried = told[-1] if told else (0.0, 0)
    before = next((pair for pair in reversed(told) if at - pair[0] >= _SHORTEST_SPAN), None)
    return mine[-1].carrying if before is None else max(0, carried - before[1]) / (at - before[0])


def _note(thread: ThreadStack, dump: StackDump, stack: ParsedStack) -> ThreadNote:
    name = thread.name or f"thread {thread.os_thread_id or thread.thread_id}"
    return ThreadNote(name, role(thread, dump), stack.where, stack.waits, thread.owns_gil)


def _threads(seen: RankLook) -> tuple[tuple[ThreadNote, ...], ParsedStack | None, ThreadNote | None]:
    """Other threads in the job's own code, and the one that most likely holds what the judged thread waits for."""
    dump, judged = seen.dump, seen.stack
    if len(dump.threads) == 1:
        return (), None, None
    main = main_thread(dump)
    others: list[tuple[ThreadNote, ParsedStack]] = []
    for thread in dump.threads:
        if thread is main or own(thread.frames) == judged.frames:
            continue
        if any(map(is_user, thread.frames)):
            inner = parse(thread.frames, main=False)
            others.append((_note(thread, dump, inner), inner))
    notes = tuple(note for note, _ in others)
    by_another_process = dump.syscall in FILE_LOCKS or (judged.waits == "helper" and not at_a_queue(judged))
    # in C code at a futex it may be a lock as well: then only a thread in the same class makes it one
    wants_lock = judged.kind == "lock" or (judged.kind == "code" and dump.syscall == "futex")
    if by_another_process or judged.waits == "time" or judged.frame is None or not wants_lock:
        return notes, None, None
    others = [pair for pair in others if may_bring(dump, judged, pair[1])]
    ranked = sorted(others, key=lambda pair: _likeness(judged.frame, pair[1]), reverse=True)
    if not ranked or _likeness(judged.frame, ranked[0][1]) < (1 if judged.kind == "lock" else _SAME_CLASS):
        return notes, None, None
    note, inner = ranked[0]
    return notes, inner if judged.meaning in _FED_BY_A_THREAD else None, note


def _likeness(waiting: Frame | None, other: ParsedStack) -> int:
    """How likely a thread holds what a frame waits for: it is in the same class or file, and not at the same point."""
    if waiting is None or (other.user and (other.user[0].name, other.user[0].line) == (waiting.name, waiting.line)):
        return 0
    score = 0
    idle = at_a_queue(other)
    for frame in other.user:
        if owner_class(waiting.name) and owner_class(frame.name) == owner_class(waiting.name):
            score = max(score, _SAME_CLASS)
        elif frame.file == waiting.file and not idle:
            score = max(score, 2)
    return score or (1 if other.user and not idle else 0)


def _gil(dump: StackDump) -> ThreadNote | None:
    for thread in dump.threads:
        if thread.owns_gil:
            return _note(thread, dump, parse(thread.frames, main=thread is main_thread(dump)))
    return None
