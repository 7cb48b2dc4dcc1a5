"""The incident report: everything that hangtop knows at this moment, as text and as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from collectors.node import redact
from hangtop import __version__
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import outcome_words, rank_text
from hangtop.session.state import JobState
from tui.logs.logbook import LogBook
from tui.looks.format import age
from tui.looks.signs import is_outcome
from tui.texts.stacked import newest_of
from tui.view_model import ViewModel

LINES = 400
"""Newest warnings and errors of the logs that are quoted."""


class Report:
    """A report: the constructor copies all that it needs; :meth:`write` may run in another thread."""

    def __init__(self, model: ViewModel) -> None:
        self._job: Job = model.session.job()
        self._verdict = model.session.verdict or Verdict("unknown", "no verdict yet")
        self._label = model.session.options.label
        self._text = "\n".join(_sections(model.state, self._job))

    def write(self, folder: Path) -> list[Path]:
        """Write the files and return where they are. Raises :class:`OSError`."""
        from hangtop.cli.answer import Answer, as_json, as_text

        answer = Answer(self._verdict, self._job, 0.0)  # the verdict was already there
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._job.now))
        text, data = folder / f"hangtop-{stamp}.txt", folder / f"hangtop-{stamp}.json"
        folder.mkdir(parents=True, exist_ok=True)
        head = f"hangtop {__version__}  {_clock(self._job.now)}  {self._label}"
        content = f"{head}\n\n{as_text(answer, colour=False)}\n{self._text}\n"
        document = json.dumps(as_json(answer), ensure_ascii=True, allow_nan=False, default=str)
        for path, written in ((text, content), (data, document + "\n")):
            path.touch(mode=0o600)
            path.write_text(redact.shapes(written), encoding="utf-8", errors="replace")
        return [text, data]


def _sections(state: JobState, job: Job) -> Iterator[str]:
    from hangtop.diagnosis.stacks.merge import as_text, merge

    yield _title("stacks")
    found = zip(job.stack_nodes, job.stacks, strict=True)
    ranks = job.stack_ranks
    named = [(ranks[node, dump.rank_pid], dump) for node, dump in found if (node, dump.rank_pid) in ranks]
    # stacks from before the stop would show motion
    since = job.now - job.stood_still if job.live and job.stood_still is not None else None
    yield as_text(merge(newest_of(named, since))) if named else "none was taken (D takes them)"
    yield _title("nodes")
    for node in job.nodes.values():
        heard = "never heard" if node.seen_at is None else f"heard {age(job.now - node.seen_at)} ago"
        yield f"{node.name}: {' '.join(filter(None, (node.link, node.why)))}, {heard}"
        sources = sorted(node.sources.values(), key=lambda source: source.source)
        yield from (f"  {s.source}: {s.state} {s.why}" for s in sources if s.state != "ok")
    yield _title("ranks")
    for rank in job.ranks:
        pulse = rank.pulses[-1].value if rank.pulses else None
        doing = "ended" if rank.gone_at is not None else "unknown" if pulse is None else f"{pulse.state} {pulse.wchan}"
        yield f"{rank_text(rank.rank)}: {rank.node} pid {rank.process.pid} {doing}  {rank.process.command}"
    yield _title("what changed lately")
    for _, change in state.changes:
        who = change.node or (outcome_words(change.kind) if is_outcome(change.kind) else "")
        yield " ".join(filter(None, (_clock(change.at), who, change.text)))
    yield _title("warnings and errors in the logs")
    book = LogBook()
    book.lowest = 1
    book.take(state)
    yield from (f"{_clock(line.at)} {line.node} {line.source}: {line.text}" for line in book.shown[-LINES:])


def _title(words: str) -> str:
    return f"\n--- {words} ".ljust(72, "-")


def _clock(at: float) -> str:
    return time.strftime("%F %T", time.localtime(at))
