"""A folder of logs as a session, for the screen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from collectors.fleet.clean import clean_value
from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Transport, TransportError
from collectors.node.logs.following.follow import Followed, LogWriter
from collectors.node.logs.lines import names
from collectors.samples.control import Settings
from collectors.samples.logs import LogFile, LogLines
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.feed import Receiver
from hangtop.session.folder.contents import Contents, Recognised
from hangtop.session.options import SessionOptions
from hangtop.session.picture import Sheet
from hangtop.session.session import Session
from hangtop.session.state.changes import Changes

NOWHERE = "files"
"""The node of what names no host."""


SHOWN = 256 << 10
"""Bytes of the end of each file whose lines are shown; of what stands before it, those that say something."""


FOR_PROGRAMS = frozenset({"flight recorder dump"})
"""Kinds of files that are no text: they have no lines to be read."""


class _End(NamedTuple):
    """The last lines of a file."""

    first: float
    """Number of the first of them."""
    lines: list[LogLines]


NOTHING = _End(float("inf"), [])


def _end(file: Recognised, now: float) -> _End:
    """The last lines of a plain file; none of one inside an archive."""
    if not Path(file.name).is_file():
        return NOTHING
    followed = Followed(file.name, LogWriter(None, names.hints(file.name).rank, "extra"), now)
    followed.refresh()
    lines = [clean_value(shown) for shown in followed.lines(now, SHOWN, {})]
    followed.close()
    count = sum(len(shown.lines) for shown in lines)
    return _End(file.lines - count + 1, lines) if lines else NOTHING


def written(contents: Contents, job: Job) -> float:
    """When the last of the files was written: what has no time of its own was said before that."""
    return job.now if contents.newest is None else min(contents.newest, job.now)


class FilesFeed:
    """Delivers what the files said, once. Nothing moves afterwards, and nobody can be asked."""

    live = False
    connected = False

    def __init__(self, contents: Contents, job: Job) -> None:
        self._contents = contents
        self._job = job

    def now(self) -> float:
        """The moment at which the files were read."""
        return self._job.now

    async def start(self, receiver: Receiver) -> None:
        """Deliver everything."""
        self.deliver(receiver)

    async def close(self) -> None:
        """Nothing is open."""

    def transport(self, node: str) -> Transport:
        """There is none."""
        raise TransportError(f"{node}: these are files")

    def python(self, node: str) -> str:
        """Refuse: see :meth:`transport`."""
        raise TransportError(f"{node}: these are files")

    def retry(self, node: str) -> None:
        """Refuse: see :meth:`transport`."""
        raise TransportError(f"{node}: these are files")

    def settings(self, node: str | None, settings: Settings) -> None:
        """Nothing to set: what was written is written."""

    def deliver(self, receiver: Receiver) -> None:
        """Put the job's parts in as the nodes would have sent them."""
        by_node: dict[str, list[NamedTuple]] = defaultdict(list)
        for rank in self._job.ranks:
            by_node[rank.node].append(rank.process)
        logs = [file for file in self._contents.files if file.lines and file.kind not in FOR_PROGRAMS]
        ends = {file.name: _end(file, self._job.now) for file in logs}
        for event in self._job.events:
            by_node[event.host or NOWHERE].append(event)
            if event.text and event.line < ends.get(event.source, NOTHING).first:
                lines = event.text.splitlines()
                at = written(self._contents, self._job) if event.at is None else event.at
                told = LogLines(event.source, event.pid, event.rank, "extra", at, lines, 0, before=event.at is None)
                by_node[NOWHERE].append(told)
        for end in ends.values():
            by_node[NOWHERE] += end.lines
        for progress in self._job.progress:
            by_node[progress.host or NOWHERE].append(progress)
        for file in self._contents.files:
            by_node[NOWHERE].append(LogFile(file.name, file.name, None, None, "extra", file.size, "", file.why))
        for node, samples in by_node.items():
            receiver.link(LinkChange(node, "offline", "read from files", self._job.now))
            receiver.samples(node, samples, 0)
        for node, stack in zip(self._job.stack_nodes, self._job.stacks, strict=True):
            receiver.stacks(node or NOWHERE, [stack])
        for dump in self._job.recorders:
            receiver.witness(dump)
        for report in self._contents.ras:
            receiver.witness(report)


class FilesSession(Session):
    """A session whose picture is the one that the files gave: the state that is drawn holds less than they say."""

    def __init__(self, contents: Contents, job: Job, name: str) -> None:
        super().__init__(SessionOptions(read_only=True, label=f"FILES {name}"), feed=FilesFeed(contents, job))
        self._of_files = job
        self.watched_from(written(contents, job))

    async def start(self, *, watching: bool = True) -> None:
        """Take what the files say; no rank started when they were read."""
        await super().start(watching=watching)
        self.state.changes = Changes(change for change in self.state.changes if change.kind != "started")

    def pictured(self, sheet: Sheet) -> Job:  # noqa: ARG002 - the live session's signature
        """The files' job, whatever is drawn."""
        return self._of_files


def shown_session(contents: Contents, job: Job, name: str) -> Session:
    """A session over a folder's contents, judged; what the verdict says happened before they were last written."""
    session = FilesSession(contents, job, name)
    session.publish(diagnose(job))
    at = written(contents, job)
    session.state.changes = Changes(replace(change, at=at) for change in session.state.changes)
    return session
