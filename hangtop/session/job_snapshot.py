"""The frozen :class:`~hangtop.diagnosis.job.Job` of a moving :class:`~hangtop.session.state.JobState`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from collectors.samples.logs import LogEvent
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.roster import told_size
from hangtop.session.job_selection import select_job
from hangtop.session.state import JobState

_TIMEOUT = re.compile(
    r"--?(?:ddp|nccl|dist(?:ributed)?|pg|process[-_]group|collective)[-_]?timeout([-_]min\w*)?[-_\w]*[ =](\d{1,6})\b",
    re.IGNORECASE,
)
"""Options by which scripts set the time-out of collectives."""
STACKS_KEPT = 90.0
"""Seconds for which a dump is at hand while the job moves: nine looks of those that are taken every ten seconds. While
it stands still, all since then are."""


class JobSnapshot(NamedTuple):
    """Everything of one moment, copied: the :class:`Job` may be made of it in another thread."""

    about: Job
    """What the session knows of the job as a whole."""
    nodes: Mapping[str, Node]
    stacks: Sequence[tuple[str, StackDump]]
    events: Sequence[tuple[str, LogEvent]]

    def job(self) -> Job:
        """Make the job: choose its ranks, and leave out what ranks of other runs log."""
        ranks, others, bystanders, ended = select_job(
            rank for node in self.nodes.values() for rank in node.ranks.values()
        )
        events = _of_the_job(self.events, ranks, (*others, *ended))
        dumped = {(node, dump.rank_pid) for node, dump in self.stacks}
        return replace(
            self.about,
            nodes=self.nodes,
            ranks=ranks,
            world_size=told_size(rank.process.world_size for rank in ranks),
            stacks=tuple(dump for _, dump in self.stacks),
            stack_nodes=tuple(node for node, _ in self.stacks),
            stack_ranks={key: rank.rank for rank in ranks if (key := (rank.node, rank.process.pid)) in dumped},
            events=tuple(event for _, event in events),
            event_nodes=tuple(node for node, _ in events),
            collective_timeout=own_timeout(
                (rank.process.command for rank in ranks),
                (e.data.get("timeout_ms") for _, e in events if e.kind == "torch.watchdog_timeout"),
            ),
            others=others,
            bystanders=bystanders,
        )


def job_snapshot(state: JobState, about: Job) -> JobSnapshot:
    """Copy everything of one moment; ``about`` is the moment, and what the session knows of it beside the state."""
    oldest = about.now - max(STACKS_KEPT, (about.stood_still or 0.0) + 1.0) if about.live else float("-inf")
    return JobSnapshot(
        replace(
            about,
            progress=tuple(state.progress.values()),
            recorders=tuple(state.recorders.values()),
            ras=tuple(state.ras),
        ),
        {name: node.copied() for name, node in state.nodes.items()},
        [(node, dump) for node, dump in state.stacks if dump.at >= oldest],
        tuple(state.events),
    )


def own_timeout(commands: Iterable[str], seen_ms: Iterable[object] = ()) -> float | None:
    """Seconds after which a job gives up a collective: what its watchdogs said, in ms, or options of its script.

    None where neither tells. The shortest counts.
    """
    said = [ms / 1000.0 for ms in seen_ms if isinstance(ms, int | float)]
    said += [float(n) * (60.0 if minutes else 1.0) for text in set(commands) for minutes, n in _TIMEOUT.findall(text)]
    return min((seconds for seconds in said if seconds > 0), default=None)


def _of_the_job(
    events: Sequence[tuple[str, LogEvent]], ranks: Iterable[Rank], unrelated: Iterable[Rank]
) -> Sequence[tuple[str, LogEvent]]:
    """Those that do not stand in a file which ranks of other runs alone write."""
    theirs = _written(unrelated)
    theirs -= _written(ranks) if theirs else set()
    return [told for told in events if (told[0], told[1].source) not in theirs] if theirs else events


def _written(ranks: Iterable[Rank]) -> set[tuple[str, str]]:
    """(node, path) of the files that these processes write."""
    return {
        (rank.node, path)
        for rank in ranks
        for path in (rank.process.stdout, rank.process.stderr, rank.process.nccl_log)
        if path
    }
