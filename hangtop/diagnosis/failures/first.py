"""The end of each rank by all reports about it, and which rank failed first.

The first failure in time that is no consequence of another is the cause, however many lines the others write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import text_of, words_of
from hangtop.diagnosis.evidence.events import log_events, ranks_in
from hangtop.diagnosis.failures.record import Failure, by_rank, failures
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.states import Activity
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, State

ENDED: tuple[State, ...] = ("gone", "missing", "leaving")
"""States in which a rank of a live job may have failed."""
LATE_S = 5.0
"""Most seconds by which other ranks log the last step after a rank has raised in it, with the difference of clocks."""
SCRIPT = "<module>"
"""The outermost frame of a script, in tracebacks and in stacks."""
WENT_ON_S = 15.0
"""Seconds for which a job may still seem to move after a failure that is the end of one of its ranks."""


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank ended: all reports about it, the one that says most of the cause first."""

    reports: tuple[Failure, ...]

    @property
    def cause(self) -> Failure:
        """The report that says most of why the rank ended."""
        return self.reports[0]

    @property
    def rank(self) -> int | None:
        """The rank that ended; None if unknown."""
        return self.reports[0].rank

    @property
    def bare(self) -> bool:
        """Whether an exit code, or a traceback without its end, is all that is known of the cause."""
        return self.cause.bare and not any(report.signal for report in self.reports if not report.consequence)

    @property
    def killed(self) -> bool:
        """Whether it got SIGKILL, or host memory ran out, and the rank itself does not report why."""
        if any(report.manner == "raised" and not report.consequence for report in self.reports):
            return False
        return any(report.signal == "KILL" or report.manner == "memory" for report in self.reports)


def ended_ranks(job_status: JobStatus) -> list[RankEnd]:
    """The end of each rank, in the order of their failures; in a live job only of ranks that did not survive."""
    job, reported = job_status.job, failures(job_status.job)
    ends = []
    for rank, reports in by_rank(reported).items():
        raised = [at for report in reports if report.event.kind == "python.exception" and (at := report.at) is not None]
        if not lives_on(job_status, rank, max(raised, default=None)):
            ends.append(_end(reports))
    unnamed = [failure for failure in reported if failure.rank is None]
    if job.live:
        return sorted(ends, key=_time)
    if ended_on_request(job):  # the launcher's reason says more
        ends = [end for end in ends if not all(report.bare for report in end.reports)]
        unnamed = [failure for failure in unnamed if not failure.bare]
    if not ends:
        return [_end(unnamed)] if unnamed else []
    return _with_traceback(sorted(ends, key=_time), unnamed)


def first_failure(ends: Sequence[RankEnd]) -> RankEnd | None:
    """The first rank that failed by itself; None where all are victims of others."""
    return next((end for end in ends if not end.cause.consequence), None)


def lives_on(job_status: JobStatus, rank: int, raised: float | None) -> bool:
    """Whether a rank of a live job has survived a failure that was reported at this time.

    It was seen inside its program since; or, if its stack cannot be read, steps were logged since, or the job still
    moves long after it.
    """
    job, status = job_status.job, job_status.statuses.get(rank)
    if not job.live or status is None or status.state in ENDED:
        return False
    if status.read and status.activity is not None and (raised is None or status.activity.at > raised):
        return not _left_program(job, status, status.activity)
    if raised is None:
        return status.state != "unseen"
    last_step = job.motion.last_step_at or -inf
    return last_step > raised + LATE_S or (job.motion.moving is True and job.now - raised > WENT_ON_S)


def _left_program(job: Job, status: RankStatus, doing: Activity) -> bool:
    """Whether an exception of this rank's present attempt has ended its whole script.

    Its process may stay, in an exception hook or an exit handler. A traceback without a time does not count after a
    restart: it may be of an earlier attempt.
    """
    again = status.process is not None and bool(status.process.process.restart)
    inside = any(line.startswith(SCRIPT) for line in doing.frames)
    raised = [f for f in failures(job) if f.rank == status.rank and f.event.kind == "python.exception"]
    outermost = [words_of(f.event, "frames")[:1] for f in raised if not (again and f.at is None)]
    return not inside and any(frame.endswith(f" in {SCRIPT}") for frames in outermost for frame in frames)


def _end(reports: Sequence[Failure]) -> RankEnd:
    """Causes go before consequences, then reports with a reason, then by time; those without a time last.

    An exit code adds nothing to a rank's own report: a victim's exit is no failure of its own. Without a known rank,
    the exit may be another rank's.
    """
    telling = [report for report in reports if report.signal or not report.bare]
    if not telling or (reports[0].rank is None and all(report.consequence for report in telling)):
        telling = list(reports)
    order = sorted(telling, key=lambda r: (r.consequence, r.bare, inf if r.at is None else r.at))
    return RankEnd(tuple(order))


def _time(end: RankEnd) -> tuple[float, bool, str, int]:
    """When a rank failed by itself, else the time of its earliest report; torchrun's root cause first at one time."""
    times = [r.at for r in end.reports if r.at is not None and r.consequence == end.cause.consequence]
    at, event = min(times, default=inf), end.cause.event
    return at, event.data.get("root") is not True, event.source, event.line


def _with_traceback(ends: list[RankEnd], unnamed: Sequence[Failure]) -> list[RankEnd]:
    """A traceback without a rank goes to the first of the bare exit codes, if that is the only one or the root cause.

    It must be in the log of the launcher that reports the exit code; else it is an end of its own. If the log has no
    other exception, ranks with the same exit code in the same second ended by it, too.
    """
    raised = [report for report in unnamed if report.manner == "raised" and not report.bare]
    causes = [report for report in raised if not report.consequence]
    by_themselves = [end for end in ends if not end.cause.consequence]
    if not by_themselves or not causes or not all(end.bare for end in by_themselves):
        return ends
    first, cause = ends[0], causes[0]
    root = len(ends) == 1 or any(report.event.data.get("root") is True for report in first.reports)
    if root and cause.event.source == first.cause.event.source:
        only, exit_told = {report.what for report in raised} == {cause.what}, (first.cause.at, first.cause.what)
        same = [end is first or (only and (end.cause.at, end.cause.what) == exit_told) for end in ends]
        told_of = [RankEnd((replace(cause, rank=end.rank), *end.reports)) for end in ends]
        return [known if alike else end for known, end, alike in zip(told_of, ends, same, strict=True)]
    return [RankEnd((cause,)), *ends]


def ended_on_request(job: Job) -> bool:
    """Whether a batch system ended the job and gives a reason, or a signal told its launcher to end."""
    reasons = {text_of(event, "reason") for event in log_events(job, "slurm.cancelled")}
    return bool(reasons - {"user"}) or bool(log_events(job, "elastic.signal"))


def lost_connections(job: Job) -> tuple[LogEvent, ...]:
    """Lines of ranks that lost the connection to a peer: these ranks are victims."""
    closed = [
        *log_events(job, "nccl.warn", "connection_closed", "ib_flush"),
        *(event for event in log_events(job, "torch.watchdog_error") if event.data.get("consequence") is True),
        *log_events(job, "gloo.closed"),
    ]  # fmt: skip
    raised = log_events(job, "python.exception", "connection")
    return (*closed, *(event for event in raised if event.data.get("survived") is not True))


AT_EXIT = "torch.program_exit"
"""torch's warning, from 2.4 on, that a program ends without destroying its process groups (ProcessGroupNCCL.cpp). A
rank that was killed does not write it; one that raised does."""


def exits(job: Job) -> dict[int, LogEvent]:
    """The last line of each rank that it is done, or that its program ends; none of ranks that report a failure."""
    failed = by_rank(failures(job)).keys()
    at_exit = [event for event in log_events(job, AT_EXIT) if event.rank not in failed]
    last_lines = (*log_events(job, "job.finished"), *at_exit)
    return {event.rank: event for event in last_lines if event.rank is not None}


def exits_before(job: Job, victims: Sequence[LogEvent]) -> tuple[LogEvent, ...]:
    """Those of ranks that are not among these victims, from before the victims' lines."""
    since = min((event.at for event in victims if event.at is not None), default=inf)
    last_lines = exits(job).items()
    return tuple(event for rank, event in last_lines if rank not in ranks_in(victims) and (event.at or -inf) <= since)
