"""What all probes have in common: their options, and their answer as JSON and as a table."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hangtop.cli.answer import Answer, as_json, as_text, wants_colour
from hangtop.cli.node_command import NOT_WATCHING, Reply, node_command
from hangtop.diagnosis.finding import Finding, Unknown, Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import outcome_words
from hangtop.session.asking.probing import NEEDED
from hangtop.session.options import SessionOptions, completed

LOADS = "The probe loads their network for some seconds."
probe_command = functools.partial(
    node_command, json="docs/findings.md", yes="Do not ask before a probe beside a running job.",
    changes="probes: they load the network", hidden=NOT_WATCHING, needs=NEEDED, node_needed=False,
)  # fmt: skip
"""A command on nodes that measures something."""


def probe_reply(
    outcome: str, summary: str, findings: Sequence[Finding], *, job: Job, began: float, figures: Mapping[str, Any],
    table: Iterable[str], unknown: Collection[Unknown] = (), options: SessionOptions | None = None,
) -> Reply:  # fmt: skip
    """The reply of a probe whose ``outcome`` is ``ok``, ``slow`` or ``failed``.

    ``figures`` go into the JSON (docs/findings.md), ``table`` is for people; with ``options`` the commands of next
    steps name the way to the nodes.
    """
    verdict = Verdict("healthy" if outcome == "ok" else "unknown", summary, tuple(findings), tuple(unknown))
    if options is not None:
        verdict = completed(verdict, options, job.nodes)
    answer = Answer(verdict, job, time.monotonic() - began)
    document = as_json(answer) | {"verdict": outcome} | dict(figures)
    return Reply(document, _lines(answer, outcome, table), 3 if answer.exit_code == 3 else int(outcome != "ok"))


def _lines(answer: Answer, outcome: str, table: Iterable[str]) -> Iterator[str]:
    yield f"{outcome_words(outcome).upper()}  {answer.verdict.summary}\n"
    yield from table
    if answer.verdict.findings:
        text = as_text(answer, colour=wants_colour(sys.stdout))
        yield "".join(text.partition("\n\n")[1:]).rstrip("\n")
