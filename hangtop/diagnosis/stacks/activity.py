"""What one rank does: all its dumps become one Activity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from collectors.samples.stacks import StackDump, ThreadStack
from hangtop.diagnosis.stacks.frames import is_user, own, place
from hangtop.diagnosis.stacks.kernel import kernel_view
from hangtop.diagnosis.stacks.parsed import ParsedStack, parse
from hangtop.diagnosis.stacks.states import Activity, Meaning, ThreadNote, target_of
from hangtop.diagnosis.stacks.threads import role, thread_name, thread_that_counts
from hangtop.diagnosis.tables.thresholds import IDLE_CORES

_SHORTEST_SPAN = 0.2
"""Seconds between two samples below which their CPU times (in 1/100 s) are too coarse to compare."""
_LATELY_S, _LATE_SAMPLES = 20.0, 3
"""Newest seconds, and at least so many samples, that decide whether a rank moves: earlier motion may have stopped."""


class _Sample(NamedTuple):
    """One parsed dump of a rank's own process."""

    dump: StackDump
    activity: Activity
    """What the rank does according to this sample alone."""
    points: tuple[tuple[object, ...], ...]
    """Name, file and line of each Python frame, to tell moving from frozen."""


def activity(dumps: Sequence[StackDump]) -> Activity:
    """What a rank does, from one or more dumps of its process and its helpers, in any order."""
    ordered = sorted(dumps, key=lambda dump: dump.at)
    mine = [dump for dump in ordered if dump.pid == dump.rank_pid] or ordered
    mine = [dump for dump in mine if not dump.error.startswith(("torn", "timeout"))] or mine  # only failed samples
    helpers = [dump for dump in ordered if dump.pid != mine[0].pid]
    torn = _torn(mine)
    samples = [_sample_of(dump, None if dump is torn else dump.main, helpers) for dump in mine]
    read, last = [sample for sample in samples if not sample.activity.error], samples[-1]
    late = [sample for sample in read if sample.dump.at >= last.dump.at - _LATELY_S]
    late = late if len(late) >= _LATE_SAMPLES else read[-_LATE_SAMPLES:]
    alike = [*takewhile(lambda sample: sample.activity.place == last.activity.place, reversed(read))]
    child = target_of(last.dump.waiting_on).process
    rates = [_carried(mine), _carried([dump for dump in helpers if dump.pid == child])]
    return last.activity._replace(
        cpu=_cpu(mine),
        moving=None if last.activity.error or len(read) == 1 else any(sample.points != last.points for sample in late),
        readings=tuple(sample.activity for sample in samples),
        since=last.dump.at if last.activity.error else alike[-1].dump.at,
        carried=max((rate for rate in rates if rate is not None), default=None),
    )


def _torn(mine: Sequence[StackDump]) -> StackDump | None:
    """The only dump without Python frames on the main thread, if it was read without a pause; None without one.

    A read without a pause sometimes misses all Python frames. A program that is over has none in the next dump, either.
    """
    empty = [dump for dump in mine if dump.main is not None and all(frame.native for frame in dump.main.frames)]
    return empty[0] if len(empty) == 1 and empty[0].method == "nonblocking" else None


def _sample_of(dump: StackDump, main: ThreadStack | None, helpers: Sequence[StackDump]) -> _Sample:
    """Parse one dump of a rank's own process, with the dumps of its helpers nearest in time.

    If main has handed its work to another thread, the other thread is judged (:func:`thread_that_counts`).
    """
    waiting_on, points = dump.waiting_on, tuple[tuple[object, ...], ...]()
    if main is None:
        doing = _without_frames(dump)
    else:
        stack, part = thread_that_counts(dump, main, parse(main.frames, kernel_view(dump)))
        doing, frames = stack.activity._replace(thread=part, others=_other_threads(dump, stack)), stack.frames
        helper, inner = _helper(dump, helpers) if doing.waits == "helper" else (None, None)
        if helper is not None and inner is not None:
            doing, frames = _with_helper(doing, helper, inner), (*frames, *inner.frames)
            if not waiting_on or target_of(waiting_on).process is not None:
                waiting_on = helper.waiting_on  # of the helper whose end the rank awaits
        points = tuple(frame[:3] for frame in frames if not frame.native)
    doing = doing._replace(
        state=dump.state, wchan=dump.wchan, syscall=dump.syscall, waiting_on=waiting_on, at=dump.at, since=dump.at,
        beside=dump.beside,
        gil=next((thread_name(thread) for thread in dump.threads if thread.owns_gil), ""),
    )  # fmt: skip
    return _Sample(dump, doing, points)


def _without_frames(dump: StackDump) -> Activity:
    """Activity from a dump without frames: the kernel and the error of py-spy are the evidence."""
    error, _, detail = dump.error.partition(": ")
    meaning = kernel_view(dump) or Meaning.CLOSED
    if meaning.waits == "unknown" and meaning is not Meaning.STOPPED:
        meaning = Meaning.CLOSED
    return Activity(meaning, meaning.waits, error=error or "torn", detail=detail or "no main thread in the dump")


def _with_helper(doing: Activity, helper: StackDump, inner: ParsedStack) -> Activity:
    """Activity of a rank that waits for a helper: at the helper's place, with the helper's frames after its own."""
    title = f"[{'data worker' if doing.kind == 'data' else 'child process'} {helper.pid}]"
    where = inner.user[0]
    return doing._replace(
        where=place(where),
        function=place(where, line=False),
        place=";".join([doing.place, *map(place, reversed(inner.user))]),
        frames=(*doing.frames, title, *inner.activity.frames),
        helper_pid=helper.pid,
    )


def _helper(waits: StackDump, helpers: Sequence[StackDump]) -> tuple[StackDump, ParsedStack] | tuple[None, None]:
    """The helper for which a rank waits: a helper in user code, not a helper that waits for its next task.

    If the kernel names the process for which the rank waits, its dump comes first: its children may do the work.
    """
    child = target_of(waits.waiting_on).process
    for dump in sorted(helpers, key=lambda dump: (dump.pid != child, abs(dump.at - waits.at))):
        main = dump.main
        if main is not None and (dump.pid == child or not dump.syscall.startswith("accept")):  # accept: a server
            parsed = parse(main.frames, kernel_view(dump))
            awaits_orders = parsed.activity.waits == "helper" and len(parsed.user) == 1
            # a helper started as ``python -c`` shows no line of the job
            if any(frame.file != "<string>" for frame in parsed.user) and not awaits_orders:
                return dump, parsed
    return None, None


def _cpu(mine: Sequence[StackDump]) -> float | None:
    """Cores in use from the first sample to the last; None if unknown, or if the process wanted a CPU and got none.

    The state letter is empty if the node did not answer.
    """
    first, last = mine[0], mine[-1]
    span = last.at - first.at
    if first.pid != last.pid or span < _SHORTEST_SPAN or not (first.state and last.state):
        return None
    cores = (last.cpu - first.cpu) / span
    return None if cores <= IDLE_CORES and first.state == last.state == "R" else cores


def _carried(dumps: Sequence[StackDump]) -> float | None:
    """Bytes per second between the last sample and an earlier one, else the rate measured during the last sample."""
    totals = [(dump.at, dump.carried) for dump in dumps if dump.carried is not None and dump.pid == dumps[-1].pid]
    for at, carried in reversed(totals):
        if totals[-1][0] - at >= _SHORTEST_SPAN:
            return max(0, totals[-1][1] - carried) / (totals[-1][0] - at)
    return dumps[-1].carrying if dumps else None


def _other_threads(dump: StackDump, judged: ParsedStack) -> tuple[ThreadNote, ...]:
    """Threads in the job's own code other than main and the judged thread."""
    beside = (thread for thread in dump.threads if thread is not dump.main and own(thread.frames) != judged.frames)
    inner = ((thread, next(filter(is_user, thread.frames), None)) for thread in beside)
    return tuple(ThreadNote(thread_name(thread), role(thread, dump), place(frame)) for thread, frame in inner if frame)
