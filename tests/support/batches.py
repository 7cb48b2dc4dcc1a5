"""Answers about many jobs on a test cluster, asked for a few side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.support.cluster import Cluster
from tests.support.faulty import Answer, FaultyJob, Triage


class Batches:
    """Answers about many jobs, a few side by side; a batch is run when the first of its answers is asked for.

    ``start`` starts a job, ``ready`` returns when its fault has struck (or brings it about). While hangtop watches the
    jobs of one batch, those of the next one are started already.
    """

    def __init__(
        self,
        cluster: Cluster,
        names: Sequence[str],
        start: Callable[[str], FaultyJob],
        ready: Callable[[str, FaultyJob], None],
        *,
        at_once: int,
    ) -> None:
        self._cluster = cluster
        self._names = list(names)
        self._start = start
        self._ready = ready
        self._at_once = at_once
        self._jobs: dict[str, FaultyJob] = {}
        self._answers: dict[str, Answer] = {}

    def __getitem__(self, name: str) -> Answer:
        if name not in self._answers:
            self._run(self._names.index(name) // self._at_once * self._at_once)
        return self._answers[name]

    def _launch(self, first: int) -> list[str]:
        """Start the jobs of the batch that begins there, those that are not answered for; their names."""
        names = [name for name in self._names[first : first + self._at_once] if name not in self._answers]
        self._jobs |= {name: self._start(name) for name in names if name not in self._jobs}
        return names

    def _run(self, first: int) -> None:
        names = self._launch(first)
        for name in names:
            self._ready(name, self._jobs[name])
        asked = {name: Triage(self._cluster, case=self._jobs[name].case) for name in names}
        self._launch(first + self._at_once)
        for name, one in asked.items():
            self._answers[name] = one.answer()
            self._jobs.pop(name).end()
