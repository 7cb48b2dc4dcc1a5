"""Each row of the event rules makes its finding of its example, and none of the same where one condition is not met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.rules.engine import EventRow, Line
from hangtop.diagnosis.rules.event_rows import EVENT_ROWS
from hangtop.diagnosis.tables.kinds import KINDS
from tests.support.jobs import Sketch, after

NODE = "node2"
RANK = 2


def told(row: EventRow, *more: Line, live: bool = False, fields: Mapping[str, Any] | None = None) -> Job:
    """A job in which the row's example was said, and what else is given."""
    job = Sketch(world=4, nodes=2) if live else after()
    job.node(NODE)
    for said in (*more, *row.beside[:1], row.event):
        own: dict[str, Any] = {name: values[0] for name, values in said.fields.items()}
        data = (own | dict(row.example if fields is None else fields)) if said is row.event else own
        kernel = row.scope != "job"
        job.says(said.kind, None if kernel else RANK, ago=5, node=NODE if kernel else "", **data)
    return job.job()


def name_of(row: EventRow) -> str:
    """``nccl.warn:no_interface``."""
    values = [str(value) for values in row.event.fields.values() for value in values[:1]]
    return f"{':'.join([row.event.kind, *values])}-{row.kind}-{EVENT_ROWS.index(row)}"


@pytest.mark.parametrize("row", EVENT_ROWS, ids=name_of)
def test_the_example_of_a_row_is_its_finding(row: EventRow) -> None:
    (finding,) = row(told(row))
    assert (finding.kind, finding.severity, finding.advice) == (row.kind, row.severity, row.advice)
    assert finding.kind in KINDS
    assert finding.evidence
    assert "  " not in finding.summary
    assert NODE in finding.nodes or row.scope == "job"
    own = row.example[row.ranks_in] if row.ranks_in else [RANK]
    assert row.scope != "job" or list(finding.ranks) == (own if row.accuses else [])


@pytest.mark.parametrize("row", [row for row in EVENT_ROWS if row.other or row.event.fields], ids=name_of)
def test_another_event_of_the_kind_is_no_finding(row: EventRow) -> None:
    other = row.other or dict.fromkeys(row.event.fields, "other")
    assert list(row(told(row, fields=other))) == []


@pytest.mark.parametrize("row", [row for row in EVENT_ROWS if row.also and row.where is None], ids=name_of)
def test_other_events_say_the_same(row: EventRow) -> None:
    for also in row.also:
        (finding,) = row(told(replace(row, event=also)))
        assert finding.kind == row.kind


@pytest.mark.parametrize("row", [row for row in EVENT_ROWS if row.unless], ids=name_of)
def test_what_says_more_takes_its_place(row: EventRow) -> None:
    for more in row.unless:
        assert list(row(told(row, more))) == [], more


@pytest.mark.parametrize("row", [row for row in EVENT_ROWS if row.last_resort], ids=name_of)
def test_a_job_that_goes_on_may_have_got_over_it(row: EventRow) -> None:
    assert list(row(told(row, live=True))) == []


@pytest.mark.parametrize("row", [row for row in EVENT_ROWS if row.last_resort], ids=name_of)
def test_a_failure_that_is_known_says_more(row: EventRow) -> None:
    raised = Line("python.exception", {"type": ("ValueError",), "message": ("bad shard",)})
    assert list(row(told(row, raised))) == []


@pytest.mark.parametrize("row", [row for row in EVENT_ROWS if row.scope == "job" and not row.last_resort], ids=name_of)
def test_words_of_a_process_before_a_restart_are_history(row: EventRow) -> None:
    job = Sketch(world=4, nodes=2)
    own: dict[str, Any] = {name: values[0] for name, values in row.event.fields.items()}
    job.says(row.event.kind, RANK, ago=90_000, **(own | dict(row.example)))
    assert list(row(job.job())) == []
