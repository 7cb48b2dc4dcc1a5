"""Evidence about ranks, written for findings, and the weight of the proof against blamed ranks."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals
from textwrap import shorten

from hangtop.diagnosis.finding import Evidence, Observer
from hangtop.diagnosis.phrasing import duration, listed, of_several, rank_text, ranks_on, ranks_text, size
from hangtop.diagnosis.tables.wchan import sleep_at
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.process_motion import HALTED
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus
from hangtop.diagnosis.waits.wake_set import ENDED, IN_LOOPS, LITTLE_BYTES_PER_S, STOPPED, WakeProgress

FRAMES_SHOWN, PLACES_SHOWN = 8, 4
COMMAND_SHOWN = 60
"""Characters of a command line that a finding quotes."""
FULL, DOUBTFUL, LINES_ALONE = 0.92, 0.7, 0.55
"""Weights of a proof: without a doubt, with a doubt, and from lines of the program alone."""


def stack_of(status: RankStatus) -> Evidence | None:
    """Return the innermost frames of one rank; None when it has none."""
    doing = status.activity
    if doing is None or not (doing.frames or doing.error):
        return None
    source = f"py-spy {ranks_on([status.rank], [status.node])}"
    shown = doing.frames[-FRAMES_SHOWN:]
    dots = ["…"] if len(shown) < len(doing.frames) else []
    text = " → ".join([*dots, *shown]) or ": ".join(filter(None, (doing.error, doing.detail)))
    return Evidence(Observer.STACKS, source, doing.at, text)


def process_of(status: RankStatus) -> Evidence | None:
    """Return what the kernel reports about one rank's process; None when the kernel reports nothing."""
    doing, moved, pid = status.activity, status.motion, status.pid
    sleep = sleep_at(moved.wchan)
    why = f" ({sleep.meaning})" if sleep.meaning and not sleep.ordinary else ""
    words = [f"state {moved.state}" if moved.state else ""]
    words.append(f"in the kernel at {moved.wchan}{why}" if moved.wchan not in ("", "0") else "")
    if doing is not None and doing.syscall not in ("", "none", "running"):
        words.append(f"system call {doing.syscall}" + (f" on {doing.waiting_on}" if doing.waiting_on else ""))
    if moved.cpu is not None and moved.span:
        beside = f", {moved.threads:.2f} of them in its other threads" if (moved.threads or 0.0) >= 0.1 else ""
        words.append(f"{moved.cpu:.2f} cores over {duration(moved.span)}{beside}")
    if doing is not None and (doing.carried or 0.0) > LITTLE_BYTES_PER_S:
        words.append(f"its connections carry {size(doing.carried or 0.0)}/s")
    source = f"/proc/{pid} on {status.node}" if pid else f"process of {rank_text(status.rank)}"
    text, observer = ", ".join(filter(None, words)), Observer.PROCESS if _kernel_agrees(status) else Observer.CONTEXT
    return Evidence(observer, source, doing.at if doing else None, text) if text else None


def _kernel_agrees(status: RankStatus) -> bool:
    """Whether the kernel says by itself what its stack says: that it works, is halted, or what it blocks on.

    That a process sleeps, at a lock, in a poll or for a moment, is true of every wait.
    """
    doing, moved = status.activity, status.motion
    works = moved.busy or moved.moves_data or moved.helped
    call = doing.waiting_on or doing.syscall if doing is not None else ""
    blocks = call not in ("", "running", "futex", *IN_LOOPS)
    return status.state not in WAITS and (works or blocks or moved.state in HALTED)


def evidence_of(status: RankStatus) -> tuple[Evidence, ...]:
    """Return the evidence from the stack and from the process of one rank, where known."""
    return tuple(line for line in (stack_of(status), process_of(status)) if line)


def waiters_of(graph: WaitGraph) -> tuple[Evidence, ...]:
    """Return where the waiters wait: one line per wait point, the largest point first."""
    lines = []
    for point in graph.points[:PLACES_SHOWN]:
        seen, doing = any(member.read for member in point.members), point.members[0].activity
        observer, source = (Observer.STACKS, "py-spy") if seen else (Observer.PROCESS, "GPUs and processes of")
        at = doing.at if doing is not None else None
        lines.append(Evidence(observer, f"{source} {ranks_text(point.ranks)}", at, f"waiting {point.text}"))
    return tuple(lines)


def watch_of(graph: WaitGraph, samples: int) -> Evidence:
    """Return for how long, and over how many samples, the waiters did not change."""
    if samples <= 1:
        return Evidence(Observer.CONTEXT, "watch", None, "one sample: it shows where each rank was, not for how long")
    moved = "nothing moved" if graph.frozen else "the same picture"
    return Evidence(Observer.CONTEXT, "watch", None, f"{moved} for {duration(graph.held)}, {samples} samples")


def children_text(status: RankStatus) -> str:
    """Name the child processes that are halted or have ended, else the only child; empty if no child is waited for.

    With several children the awaited child is unknown, but a halted or ended child does not answer.
    """
    doing, process = status.activity, status.process
    if doing is None or process is None or doing.waits != "helper":
        return ""
    children = [*process.helpers.values()]
    for states, words in ((STOPPED, "stopped"), (ENDED, "dead")):
        if matching := [child for child in children if child.state in states]:
            ends = sorted({_ended_by(child.ended) for child in matching if child.ended is not None})
            by = f" ({', '.join(ends)})" if ends else ""
            pids = listed([str(child.pid) for child in matching], 3)
            return f"of its child processes, {pids} {of_several('is', len(matching))} {words}{by}"
    only = children[0] if len(children) == 1 else None
    return f"it waits for process {only.pid} ({shorten(only.command, COMMAND_SHOWN, placeholder='…')})" if only else ""


def _ended_by(wait_status: int) -> str:
    """Decode a wait status: ``SIGKILL``, ``exit code 1``."""
    number = wait_status & 0x7F
    if not number:
        return f"exit code {wait_status >> 8}"
    return Signals(number).name if number in set(Signals) else f"signal {number}"


# --- how much it weighs ------------------------------------------------------------------------------------------


def weight_of(job_status: JobStatus, graph: WaitGraph, members: Sequence[RankStatus]) -> float:
    """Weigh the proof that these ranks hold up the others: *likely* with a doubt, *possible* from lines alone.

    :mod:`hangtop.diagnosis.finding` maps the weight to proven, likely or possible, and demands two independent sources
    for proven.
    """
    if graph.pattern == "held_up":
        return DOUBTFUL if any(_may_not_be_stuck(job_status, member) for member in members) else FULL
    stages = graph.by == "operations" and any(point.kind == "device" and not point.where for point in graph.points)
    if graph.by == "lines" or stages or (graph.pattern == "mismatch" and graph.by is None):
        return LINES_ALONE
    one_operation = len({(point.kind, point.op) for point in graph.points}) == 1
    return DOUBTFUL if one_operation or graph.by == "threads" else FULL


def _may_not_be_stuck(job_status: JobStatus, status: RankStatus) -> bool:
    """Whether the evidence against a rank that does not wait allows another reading.

    Only its network threads or its function names accuse the rank; or an event outside the job may still unblock the
    rank; or native frames would show what its C code waits for.
    """
    doing = status.activity
    if doing is None:
        return False
    by_threads = status.state == "on_gpu" and status.load != "idle"
    outside = job_status.job.live and job_status.wake_set(status).progress is WakeProgress.OUTSIDE
    opaque = doing.needs_native and not doing.waiting_on and doing.waits == "unknown"
    return by_threads or doing.by_name or outside or opaque or status.in_c_code
