"""What logs, kernel and libraries say."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines
from collectors.samples.stacks import StackDump
from hangtop.session.apply.kit import Applier, Here
from hangtop.session.state import NodeState


def file(here: Here, sample: LogFile) -> None:
    """A followed file, or one that cannot be read."""
    before = here.node.log_files.get(sample.path)
    here.node.log_files[sample.path] = sample
    if before is not None and before.size != sample.size:
        _grew(here.node, sample.pid, here.at)


def lines(here: Here, sample: LogLines) -> None:
    """New lines of a file on view."""
    here.job.log_lines.append((here.node.name, sample))
    here.job.log_serial += 1
    _grew(here.node, sample.pid, here.at)


def event(here: Here, sample: LogEvent) -> None:
    """A line that says something."""
    here.job.events.append((here.node.name, sample))
    here.job.event_serial += 1
    # At the start of a stream the kernel tells its old stories too: those are no change.
    if sample.kind.startswith("kernel.") and (sample.at is None or sample.at >= here.job.started):
        here.note(sample.text.partition("\n")[0][:200])
    _grew(here.node, sample.pid, here.at)


def progress(here: Here, sample: CommProgress) -> None:
    """Last collective that a rank launched on a communicator."""
    here.job.progress[here.node.name, sample.comm, sample.rank] = sample
    _grew(here.node, sample.pid, here.at)


def stack(here: Here, sample: StackDump) -> None:
    """One look at one process."""
    here.job.stacks.append((here.node.name, sample))


def _grew(node: NodeState, pid: int | None, at: float) -> None:
    rank = None if pid is None else node.ranks.get(pid)
    if rank is not None:
        rank.log_at = at


APPLIERS: Mapping[type, Applier] = {
    LogFile: file,
    LogLines: lines,
    LogEvent: event,
    CommProgress: progress,
    StackDump: stack,
}
