"""What one rank is doing: its dumps in, one Activity out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.stacks.frames import function, is_in, is_user, own, owner_class, place
from hangtop.diagnosis.stacks.kernel import FILE_LOCKS, kernel_view
from hangtop.diagnosis.stacks.parsed import ParsedStack, parse
from hangtop.diagnosis.stacks.states import Activity, Cpu, Kind, Meaning, Role, TargetKind, ThreadNote, target_of
from hangtop.diagnosis.stacks.threads import at_a_queue, main_thread, may_bring, role, thread_that_counts
from hangtop.diagnosis.tables.thresholds import BUSY_CORES, IDLE_CORES

_SHORTEST_SPAN = 0.2
"""Seconds between two looks under which their CPU times (in hundredths) tell nothing."""
_FED_BY_A_THREAD = frozenset((
    Meaning.QUEUE, Meaning.QUEUE_TAKEN, Meaning.PROCESS_QUEUE, Meaning.FUTURE, Meaning.THREAD, Meaning.THREAD_POOL,
    Meaning.EVENT,
))  # fmt: skip
"""Waits that another thread of the process ends by its work."""
_SAME_CLASS = 3
_STAYS: frozenset[Kind] = frozenset(("code", "data", "checkpoint", "compile", "evaluation", "sleep"))


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
        lines = list(self.stack.says.frames)
        if self.stack.says.decided_by is None and lines and self.stack.user:
            running = place(self.stack.user[0])
            lines = [line.rpartition(":")[0] if line == running else line for line in lines]
        if self.helper_stack is not None:
            lines.extend(place(frame) for frame in reversed(self.helper_stack.user))
        return ";".join(lines)

    @property
    def frames(self) -> tuple[str, ...]:
        """The folded frames for people, outermost first, those of the helper behind the rank's own."""
        says = self.stack.says
        if self.helper is None or self.helper_stack is None:
            return says.frames
        helper = "data worker" if says.kind == "data" else "child process"
        return (*says.frames, f"[{helper} {self.helper.pid}]", *self.helper_stack.says.frames)


def activity(dumps: Sequence[StackDump]) -> Activity:
    """What a rank is doing, from all dumps of its process and its helpers: any number of looks, in any order.

    Raises :class:`ValueError` for no dumps at all.
    """
    if not dumps:
        raise ValueError("no dumps")
    ordered = sorted(dumps, key=lambda dump: dump.at) if len(dumps) > 1 else dumps
    of_rank = [dump for dump in ordered if dump.pid == dump.rank_pid]
    mine = of_rank or ordered
    helpers = [dump for dump in ordered if dump.pid != dump.rank_pid] if of_rank else []
    looks = [seen for dump in mine if (seen := _look_at(dump, helpers)) is not None]
    newest = mine[-1]
    if not looks or looks[-1].dump is not newest:
        return _without_frames(newest, mine)
    return _of_looks(looks, mine, [dump for dump in helpers if dump.pid == _child_of(newest)])


def _look_at(dump: StackDump, helpers: Sequence[StackDump]) -> RankLook | None:
    """Read one dump of a rank's own process, with those of its helpers of about the same moment; None without frames.

    Where main has handed the work to another thread, that one is judged (:func:`thread_that_counts`).
    """
    main = main_thread(dump)
    if main is None:
        return None
    stack, judged = thread_that_counts(dump, main, parse(main.frames, kernel_view(dump)))
    helper = _helper(dump, helpers) if stack.says.waits == "helper" else None
    return RankLook(dump, stack, judged, *(helper or (None, None)))


def _helper(waits: StackDump, helpers: Sequence[StackDump]) -> tuple[StackDump, ParsedStack] | None:
    """The helper that a rank waits for: one that is in user code, rather than one that waits for its orders.

    Where the kernel tells for which process it waits that one goes before all others: what it started may do the work.
    """
    near = sorted(helpers, key=lambda dump: abs(dump.at - waits.at))
    wanted = [dump for dump in near if dump.pid == _child_of(waits)]
    others = [dump for dump in near if dump not in wanted and dump.syscall not in ("accept", "accept4")]  # a server
    for dump in (*wanted, *others):
        main = main_thread(dump)
        if main is None:
            continue
        found = parse(main.frames, kernel_view(dump))
        # of a helper that was started as ``python -c`` no line of the job is seen
        if any(frame.file != "<string>" for frame in found.user) and not _awaits_orders(found):
            return dump, found
    return None


def _child_of(dump: StackDump) -> int | None:
    """The process for whose end a call waits."""
    target = target_of(dump.waiting_on)
    return target.pid if target.kind is TargetKind.PROCESS else None


def _awaits_orders(stack: ParsedStack) -> bool:
    """Whether a helper waits at its pipe or queue in the very function that it was started to run: for the rank."""
    if stack.says.waits != "helper" or len(stack.user) != 1:
        return False
    outside = stack.frames[stack.frames.index(stack.user[0]) + 1 :]
    return bool(outside) and function(outside[0].name) == "run" and is_in(outside[0].file, "multiprocessing/process.py")


def _of_looks(looks: Sequence[RankLook], mine: Sequence[StackDump], child: Sequence[StackDump]) -> Activity:
    """``child``: dumps of the one process for whose end the rank waits."""
    last = looks[-1]
    dump, says = last.dump, last.stack.says
    others = _other_threads(last)
    holder, inside = _holder(last, others)
    alike = all(seen.stack is last.stack and seen.helper_stack is last.helper_stack for seen in looks)
    if holder is not None and says.kind == "code":
        says = says._replace(kind="lock", meaning=Meaning.LOCK, waits="lock", label=Meaning.LOCK.words)
    kind, label = says.kind, says.label
    where = next(iter(last.user), None) if alike else _stays(looks)
    if holder is not None and inside is not None and inside.kind in ("data", "checkpoint"):
        # the thread that should feed the queue is the one that is stuck
        kind, where, label = inside.kind, inside.frame or where, f"{label}: thread {holder.name} {inside.label}"
    moving = None if len(looks) == 1 else not alike and any(_points(seen) != _points(last) for seen in looks)
    told = dump.waiting_on
    if last.helper is not None and (not told or _child_of(dump) is not None):
        told = last.helper.waiting_on  # what the process waits on for whose end the rank waits
    return says._replace(
        kind=kind,
        label=label,
        frame=where,
        where=place(where) if where is not None else "",
        place=last.place,
        frames=last.frames,
        cpu=_cpu(mine),
        moving=moving,
        thread=last.role,
        others=tuple(note for note, _ in others),
        gil=_gil(dump),
        holder=holder,
        helper_pid=last.helper.pid if last.helper is not None else None,
        by_name=says.by_name and kind == says.kind,
        native_would_tell=says.native_would_tell and not (moving and says.waits == "nothing"),
        state=dump.state,
        wchan=dump.wchan,
        syscall=dump.syscall,
        waiting_on=told,
        looks=len(mine),
        at=dump.at,
        since=looks[0].dump.at if alike else _since(looks),
        carried=max((rate for rate in (_carried(mine), _carried(child)) if rate is not None), default=None),
    )


def _without_frames(newest: StackDump, mine: Sequence[StackDump]) -> Activity:
    """What the kernel says, and what py-spy said, is the evidence."""
    error, _, said = newest.error.partition(": ")
    known = kernel_view(newest)
    meaning = known.meaning if known.waits != "unknown" or known.meaning is Meaning.STOPPED else Meaning.CLOSED
    return Activity(
        "unknown", meaning, "", meaning.words, known.waits, frozenset(), cpu=_cpu(mine), state=newest.state,
        wchan=newest.wchan, syscall=newest.syscall, waiting_on=newest.waiting_on, error=error or "torn",
        said=said or "no main thread in the dump", looks=len(mine), at=newest.at, since=newest.at,
        carried=_carried(mine),
    )  # fmt: skip


# --- several looks -----------------------------------------------------------------------------------------------


def _points(seen: RankLook) -> list[tuple[str, str, int]]:
    """Python frames as they were, to tell moving from frozen."""
    frames = [frame for frame in seen.stack.frames if not frame.native]
    frames += seen.helper_stack.frames if seen.helper_stack is not None else ()
    return [(frame.name, frame.file, frame.line) for frame in frames]


def _stays(looks: Sequence[RankLook]) -> Frame | None:
    """Innermost user frame; of a rank that moves, the innermost that all looks have in common."""
    newest = looks[-1].user
    if not newest:
        return None
    paths = [[(frame.name, frame.file) for frame in reversed(seen.user)] for seen in looks]
    if {seen.stack.says.kind for seen in looks} - _STAYS:
        return newest[0]
    common = 0
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        common += 1
    return newest[len(newest) - common] if common else newest[0]


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
    if share <= IDLE_CORES:
        return "unknown" if first.state == last.state == "R" else "blocked"
    return "busy" if share >= BUSY_CORES else "mixed"


def _carried(mine: Sequence[StackDump]) -> float | None:
    """By the last look and one before it, else by what was seen during the last."""
    if not mine:
        return None
    told = [(dump.at, dump.carried) for dump in mine if dump.carried is not None and dump.pid == mine[-1].pid]
    at, carried = told[-1] if told else (0.0, 0)
    before = next((pair for pair in reversed(told) if at - pair[0] >= _SHORTEST_SPAN), None)
    return mine[-1].carrying if before is None else max(0, carried - before[1]) / (at - before[0])


# --- threads -----------------------------------------------------------------------------------------------------

_Other = tuple[ThreadNote, ParsedStack]


def _note(thread: ThreadStack, dump: StackDump, stack: ParsedStack) -> ThreadNote:
    name = thread.name or f"thread {thread.os_thread_id or thread.thread_id}"
    return ThreadNote(name, role(thread, dump), stack.says.where, stack.says.waits)


def _other_threads(seen: RankLook) -> list[_Other]:
    """Threads besides main and the judged one that are in the job's own code."""
    dump, main = seen.dump, main_thread(seen.dump)
    others = []
    for thread in dump.threads if len(dump.threads) > 1 else ():
        if thread is not main and own(thread.frames) != seen.stack.frames and any(map(is_user, thread.frames)):
            inner = parse(thread.frames, main=False)
            others.append((_note(thread, dump, inner), inner))
    return others


def _holder(seen: RankLook, others: Sequence[_Other]) -> tuple[ThreadNote | None, Activity | None]:
    """The thread that most likely holds the lock that the judged one waits for; what it does, where that ends the wait.

    It is in the same class, else in the same file, else anywhere in the job's own code; not at the same point.
    """
    judged, dump = seen.stack.says, seen.dump
    by_another_process = dump.syscall in FILE_LOCKS or (judged.waits == "helper" and not at_a_queue(seen.stack))
    # a threading.Lock is C code at a futex: a thread in the same class makes it one
    may_be_lock = judged.kind == "code" and dump.syscall == "futex"
    if (judged.kind != "lock" and not may_be_lock) or judged.waits == "time" or by_another_process:
        return None, None
    able = [pair for pair in others if may_bring(dump, seen.stack, pair[1])]
    note, inner = max(able, key=lambda pair: _likeness(judged.frame, pair[1]), default=(None, None))
    if note is None or inner is None or _likeness(judged.frame, inner) < (_SAME_CLASS if may_be_lock else 1):
        return None, None
    return note, inner.says if judged.meaning in _FED_BY_A_THREAD else None


def _likeness(waiting: Frame | None, other: ParsedStack) -> int:
    if waiting is None or not other.user or (other.user[0].name, other.user[0].line) == (waiting.name, waiting.line):
        return 0
    owner = owner_class(waiting.name)
    if owner and any(owner_class(frame.name) == owner for frame in other.user):
        return _SAME_CLASS
    if at_a_queue(other):
        return 0
    return 2 if any(frame.file == waiting.file for frame in other.user) else 1


def _gil(dump: StackDump) -> ThreadNote | None:
    holding = next((thread for thread in dump.threads if thread.owns_gil), None)
    if holding is None:
        return None
    return _note(holding, dump, parse(holding.frames, main=holding is main_thread(dump)))
