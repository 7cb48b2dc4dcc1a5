"""What one rank is doing: its dumps in, one Activity out."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.busy import is_blocked, is_busy
from hangtop.diagnosis.stacks.doing import Activity, Cpu, Kind, ThreadNote
from hangtop.diagnosis.stacks.folding import folded
from hangtop.diagnosis.stacks.frames import is_user, may_compute, own, owner_class, place
from hangtop.diagnosis.stacks.look import CHILD, StackLook, look
from hangtop.diagnosis.stacks.reading import Reading, read
from hangtop.diagnosis.stacks.roles import main_thread, role
from hangtop.diagnosis.stacks.system import FILE_LOCKS, System, system
from hangtop.diagnosis.stacks.threads import at_a_queue, may_bring, second_collective

_SHORTEST_SPAN = 0.2
"""Seconds between two looks under which their CPU times (in hundredths) tell nothing."""

_TELLS = ("torch/distributed/distributed_c10d.py", "torch/distributed/c10d_logger.py")
"""Files in which nothing is computed: a loop of one's own may ask there for its rank all the time."""
_SAME_CLASS = 3
_FED_BY_A_THREAD = ("queue", "future", "thread to end", "pool of threads", "lock or an event")
_STAYS: frozenset[Kind] = frozenset(("code", "data", "checkpoint", "compile", "evaluation", "sleep"))


def activity(dumps: Sequence[StackDump]) -> Activity:
    """What a rank is doing, from all dumps of its process and its helpers: any number of looks, in any order.

    Raises :class:`ValueError` for no dumps at all.
    """
    if not dumps:
        raise ValueError("no dumps")
    ordered = sorted(dumps, key=lambda dump: dump.at) if len(dumps) > 1 else dumps
    of_rank = [dump for dump in ordered if dump.pid == dump.rank_pid]
    mine, helped = of_rank or ordered, len(of_rank) < len(ordered)
    looks = [seen for dump in mine if (seen := look(dump, _near(ordered, dump) if helped else ())) is not None]
    newest = mine[-1]
    if not looks or looks[-1].dump is not newest:
        return _unknown(newest, mine)
    child = [dump for dump in ordered if f"{CHILD}{dump.pid}" == newest.waiting_on] if helped else []
    return _of_looks(looks, mine, child)


def _near(dumps: Sequence[StackDump], of: StackDump) -> list[StackDump]:
    """Dumps of a process's helpers, nearest in time first."""
    helpers = [dump for dump in dumps if dump.rank_pid == of.pid and dump.pid != of.pid]
    return sorted(helpers, key=lambda dump: abs(dump.at - of.at))


def _of_looks(looks: Sequence[StackLook], mine: Sequence[StackDump], child: Sequence[StackDump]) -> Activity:
    """``child``: dumps of the one process for whose end the rank waits."""
    last = looks[-1]
    reading, dump = last.reading, last.dump
    notes, holder_reading, holder = _threads(last)
    alike = all(seen.reading is reading and seen.helper_reading is last.helper_reading for seen in looks)
    kind, label, waits, where = reading.kind, reading.label, reading.waits, last.frame if alike else _stays(looks)
    if kind == "code" and holder is not None:
        kind, label, waits = "lock", "waits for a lock", "lock"
    if kind == "lock" and holder_reading is not None and holder_reading.kind in ("data", "checkpoint"):
        # the thread that should feed the queue is the one that is stuck
        kind, where = holder_reading.kind, holder_reading.user[0] if holder_reading.user else where
        label = f"{label}: thread {holder.name if holder else ''} {holder_reading.label}"
    moving = None if len(looks) == 1 else not alike and any(seen.raw != last.raw for seen in looks)
    return Activity(
        kind=kind,
        op=reading.op,
        label=label,
        waits=waits,
        context=reading.context,
        group=reading.group,
        world=reading.world,
        peer=reading.peer,
        frame=where,
        where=place(where) if where is not None else "",
        decided_by=reading.decided_by,
        place=last.place,
        frames=_for_people(last),
        cpu=_cpu(mine),
        moving=moving,
        thread=last.role,
        others=notes,
        gil=_gil(dump),
        holder=holder,
        helper_pid=last.helper.pid if last.helper is not None else None,
        by_name=reading.by_name and kind == reading.kind,
        native_would_tell=reading.native_would_tell and not (moving and reading.waits == "nothing"),
        state=dump.state,
        wchan=dump.wchan,
        syscall=dump.syscall,
        waiting_on=_waiting_on(dump, last.helper),
        error="",
        said="",
        looks=len(mine),
        at=dump.at,
        since=looks[0].dump.at if alike else _since(looks),
        second=second_collective(dump, reading),
        carried=_most(_carried(mine), _carried(child) if child else None),
        root=reading.root,
        within=reading.within,
        in_library=_in_library(reading),
    )


CLOSED = "cannot be looked into"
"""What a rank does of which no frame could be read and the kernel says nothing."""


def _unknown(newest: StackDump, mine: Sequence[StackDump]) -> Activity:
    """No frames: what the kernel says, and what py-spy said, is the evidence."""
    error, _, said = newest.error.partition(": ")
    known = system(newest)
    return Activity(
        kind="unknown",
        op="",
        label=known.label if known.waits != "unknown" or newest.state in ("T", "t") else CLOSED,
        waits=known.waits,
        context=frozenset(),
        group="",
        world=None,
        peer=None,
        frame=None,
        where="",
        decided_by=None,
        place="",
        frames=(),
        cpu=_cpu(mine),
        moving=None,
        thread="main",
        others=(),
        gil=None,
        holder=None,
        helper_pid=None,
        by_name=False,
        native_would_tell=False,
        state=newest.state,
        wchan=newest.wchan,
        syscall=newest.syscall,
        waiting_on=newest.waiting_on,
        error=error or "torn",
        said=said or "no main thread in the dump",
        looks=len(mine),
        at=newest.at,
        since=newest.at,
        second="",
        carried=_carried(mine),
    )


def _for_people(seen: StackLook) -> tuple[str, ...]:
    lines = folded(seen.reading)
    if seen.helper is None or seen.helper_reading is None:
        return lines
    helper = "data worker" if seen.reading.kind == "data" else "child process"
    return (*lines, f"[{helper} {seen.helper.pid}]", *folded(seen.helper_reading))


def _stays(looks: Sequence[StackLook]) -> Frame | None:
    """Innermost user frame; of a rank that moves, the innermost that all looks have in common."""
    newest = looks[-1].user
    if not newest:
        return None
    paths = [[(frame.name, frame.file) for frame in reversed(seen.user)] for seen in looks]
    if {seen.reading.kind for seen in looks} - _STAYS:
        return newest[0]
    common = 0
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        common += 1
    return newest[len(newest) - common] if common else newest[0]


def _waiting_on(dump: StackDump, helper: StackDump | None) -> str:
    """What its call waits on; what that of the process waits on, where it waits for the end of that one."""
    if helper is None or (dump.waiting_on and not dump.waiting_on.startswith(CHILD)):
        return dump.waiting_on
    return helper.waiting_on


def _since(looks: Sequence[StackLook]) -> float:
    place_now = looks[-1].place
    since = looks[-1].dump.at
    for seen in reversed(looks):
        if seen.place != place_now:
            break
        since = seen.dump.at
    return since


def _cpu(mine: Sequence[StackDump]) -> Cpu:
    """What it used from the first look to the last; who is ready to run and is given none is starved, not blocked.

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


def _in_library(reading: Reading) -> bool:
    inside = reading.frames[: reading.frames.index(reading.user[0])] if reading.user else reading.frames
    return any((frame.native or may_compute(frame.file)) and not frame.file.endswith(_TELLS) for frame in inside)


def _carried(mine: Sequence[StackDump]) -> float | None:
    """By the last look and one before it, else by what was seen during the last."""
    told = [(dump.at, dump.carried) for dump in mine if dump.carried is not None and dump.pid == mine[-1].pid]
    at, carried = told[-1] if told else (0.0, 0)
    before = next((pair for pair in reversed(told) if at - pair[0] >= _SHORTEST_SPAN), None)
    return mine[-1].carrying if before is None else max(0, carried - before[1]) / (at - before[0])


def _most(own: float | None, childs: float | None) -> float | None:
    return own if childs is None else max(own or 0.0, childs)


def _note(thread: ThreadStack, dump: StackDump, reading: Reading) -> ThreadNote:
    return ThreadNote(
        thread.name or f"thread {thread.os_thread_id or thread.thread_id}",
        role(thread, dump),
        reading.where,
        reading.waits,
        thread.owns_gil,
    )


def _threads(seen: StackLook) -> tuple[tuple[ThreadNote, ...], Reading | None, ThreadNote | None]:
    """Other threads in the job's own code, and the one that most likely holds what the judged thread waits for."""
    dump, judged = seen.dump, seen.reading
    if len(dump.threads) == 1:
        return (), None, None
    main = main_thread(dump)
    others: list[tuple[ThreadNote, Reading]] = []
    for thread in dump.threads:
        if thread is main or own(thread.frames) == judged.frames:
            continue
        if any(is_user(frame) for frame in thread.frames):
            inner = read(thread.frames, System(), main=False)
            others.append((_note(thread, dump, inner), inner))
    notes = tuple(note for note, _ in others)
    # in C code at a futex it may be a lock as well: then only a thread in the same class makes it one
    needed = 1 if judged.kind == "lock" else _SAME_CLASS
    if (
        dump.syscall in FILE_LOCKS
        or judged.waits == "time"
        or (judged.waits == "helper" and "queue" not in judged.label)
    ):
        return notes, None, None  # another process keeps that one
    if judged.frame is None or not (judged.kind == "lock" or (judged.kind == "code" and dump.syscall == "futex")):
        return notes, None, None
    others = [pair for pair in others if may_bring(dump, judged, pair[1])]
    ranked = sorted(others, key=lambda pair: _likeness(judged.frame, pair[1]), reverse=True)
    if not ranked or _likeness(judged.frame, ranked[0][1]) < needed:
        return notes, None, None
    note, inner = ranked[0]
    feeds = any(words in judged.label for words in _FED_BY_A_THREAD)
    return notes, inner if feeds else None, note


def _likeness(waiting: Frame | None, other: Reading) -> int:
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
            return _note(thread, dump, read(thread.frames, System(), main=thread is main_thread(dump)))
    return None
