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


def told(
    row: EventRow, *more: Line, live: bool = False, fields: Mapping[str, Any] | None = None, ago: float = 5
) -> Job:
    """A job in which the row's example was said, and what else is given."""
    job = Sketch(world=4, nodes=2) if live else after()
    job.node(NODE)
    for said in (*more, *row.beside[:1], row.event):
        own: dict[str, Any] = {name: values[0] for name, values in said.fields.items()}
        data = (own | dict(row.example if fields is None else fields)) if said is row.event else own
        kernel = row.scope != "job"
        job.says(said.kind, None if kernel else RANK, ago=ago, node=NODE if kernel else "", **data)
    return job.job()


def name_of(row: EventRow) -> str:
    """``nccl.warn:no_interface``."""
    values = [str(value) for values in row.event.fields.values() for value in values[:1]]
    return f"{':'.join([row.event.kind, *values])}-{row.kind}-{EVENT_ROWS.index(row)}"


@pytest.mark.parametrize("row", EVENT_ROWS, ids=name_of)
def test_the_example_of_a_row_is_its_finding(row: EventRow) -> None:
    for also in () if row.where else row.also:
        assert [finding.kind for finding in row(told(replace(row, event=also)))] == [row.kind]
    (finding,) = row(told(row))
    assert (finding.kind, finding.severity, finding.advice) == (row.kind, row.severity, row.advice)
    assert finding.kind in KINDS
    assert finding.evidence
    assert "  " not in finding.summary
    assert NODE in finding.nodes or row.scope == "job"
    own = row.example[row.ranks_in] if row.ranks_in else [RANK]
    assert row.scope != "job" or list(finding.ranks) == (own if row.accuses else [])


@pytest.mark.parametrize("row", EVENT_ROWS, ids=name_of)
def test_without_one_of_its_conditions_a_row_is_no_finding(row: EventRow) -> None:
    twins = [told(row, more) for more in row.unless]
    if other := row.other or dict.fromkeys(row.event.fields, "other"):
        twins.append(told(row, fields=other))
    if row.last_resort:  # a live job may have got over it, and a failure that is known says more
        twins += [told(row, live=True), told(row, Line("python.exception", {"type": ("ValueError",)}))]
    else:  # it was said before the job began
        twins.append(told(row, live=True, ago=90_000))
    assert [list(row(twin)) for twin in twins] == [[]] * len(twins)
