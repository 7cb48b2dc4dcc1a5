"""Events and lines from logs, kernel and libraries.

Reading a line does not show that the job moves: a panel may request lines from an hour ago. Only growth of a log while
it is watched does.
"""

from __future__ import annotations

from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines, LogsRead, StepCount
from hangtop.diagnosis.node import Steps
from hangtop.session.state import SampleContext

LINES_KEPT = 8
"""Step lines of one log that are kept."""
COMMUNICATORS = 65_536
"""Communicators that are kept for all ranks of a node."""


def file(here: SampleContext, sample: LogFile) -> None:
    """A followed file, or a file that cannot be read."""
    before = here.node.log_files.get(sample.path)
    here.node.log_files[sample.path] = sample
    rank = here.rank(sample.pid)
    if rank is not None and before is not None and before.size != sample.size:
        rank.log_at = here.at


def lines(here: SampleContext, sample: LogLines) -> None:
    """Lines of a file on view; the first ones are the end of its old lines."""
    here.job.log_lines.add(here.node.name, sample)


def event(here: SampleContext, sample: LogEvent) -> None:
    """A line that is an event."""
    here.job.events.add(here.node.name, sample)
    # old kernel messages, which a stream begins with, are no change
    if sample.kind.startswith("kernel.") and (sample.at is None or sample.at >= here.job.started):
        here.note(sample.text.partition("\n")[0][:200], "kernel")


def read(here: SampleContext, sample: LogsRead) -> None:
    """How far the node has read its logs."""
    here.node.logs_read = sample.at


def collectives(here: SampleContext, sample: CommProgress) -> None:
    """The last collective that a rank launched on a communicator."""
    # the pid stands for a rank without a number in the communicator
    key = here.node.name, sample.comm, sample.rank if sample.rank >= 0 else -1 - (sample.pid or 0)
    before = here.job.progress.get(key)
    if before is None:
        if here.node.communicators >= COMMUNICATORS:
            return
        here.node.communicators += 1
    here.job.progress[key] = sample
    rank = here.rank(sample.pid)
    if rank is not None and before is not None and before.pid == sample.pid:
        rank.launched += max(0, sample.launched - before.launched)


def steps(here: SampleContext, sample: StepCount) -> None:
    """The training steps that a log shows."""
    known = here.node.steps.setdefault(sample.path, Steps(sample))
    # A new stream counts from zero again, and its first sample is about older lines.
    before, known.count = known.count, sample
    grown = 0 <= before.grown < sample.grown
    at = here.at if sample.at is None else min(sample.at, here.at)
    if grown:
        known.grown_at = at
    if sample.value is not None and sample.at is not None:
        last = known.lines[-1] if known.lines else None
        anew = last is None or last[1] > sample.value or last[2] > sample.grown
        known.lines = (*(() if anew else known.lines), (at, sample.value, sample.grown))[-LINES_KEPT:]
