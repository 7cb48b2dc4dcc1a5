"""Logs as stores give them out: documents of records, and the newest record first."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read

STEPS = [f"step {number} loss 2.{number}" for number in range(20)]
RAISED = ["Traceback (most recent call last):", '  File "/x/t.py", line 3, in <module>', "    go()", "KeyError: 'x'"]


def _findings(folder: Path, text: str, name: str = "out.json") -> list[Finding]:
    (folder / name).write_text(text)
    return [found for found in diagnose(job_of(read([folder]))).findings if found.severity != "info"]


def _at(number: int) -> str:
    return f"2026-03-02T10:00:{number:02d}.000Z"


def _google(number: int, line: str) -> dict[str, Any]:
    labels = {"pod_name": "w-2", "cluster_name": "c"}
    return {"timestamp": _at(number), "textPayload": line, "resource": {"type": "k8s_container", "labels": labels}}


def _datadog(number: int, line: str) -> dict[str, Any]:
    fields = {"timestamp": _at(number), "host": "w-2", "message": line, "attributes": {"rank": 5}}
    return {"id": f"A{number}", "content": fields}


def _cloudwatch(number: int, line: str) -> dict[str, Any]:
    return {"logStreamName": "job/w-2-1772445600", "timestamp": 1772445600000 + number, "message": line}


RECORDS = [_google, _datadog, _cloudwatch]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_of_records(record: Any, indent: int | None, tmp_path: Path) -> None:
    rows = [record(number, line) for number, line in enumerate(STEPS + RAISED)]
    (found,) = _findings(tmp_path, json.dumps({"events": rows} if record is _cloudwatch else rows, indent=indent))
    assert (found.kind, found.nodes) == ("rank_crashed", ("w-2",))
    assert found.ranks == ((5,) if record is _datadog else ())
    assert "KeyError" in found.summary


@pytest.mark.parametrize("document", [True, False])
def test_the_newest_record_first(document: bool, tmp_path: Path) -> None:
    rows = [_google(number, line) for number, line in enumerate(STEPS + RAISED)][::-1]
    text = json.dumps(rows) if document else "".join(json.dumps(row) + "\n" for row in rows)
    (found,) = _findings(tmp_path, text)
    assert (found.kind, found.nodes) == ("rank_crashed", ("w-2",))
    assert "oldest first" in found.evidence[0].source


def test_lines_with_times_the_newest_first(tmp_path: Path) -> None:
    rows = [f"{_at(number)} {line}" for number, line in enumerate([*STEPS, "\n".join(RAISED), "it ended"])]
    (found,) = _findings(tmp_path, "\n".join(rows[::-1]) + "\n", "out.log")
    assert (found.kind, "KeyError: 'x'" in found.summary) == ("rank_crashed", True)


def test_one_time_that_rises_leaves_the_order_as_it_is(tmp_path: Path) -> None:
    rows = [f"{_at(20 - number)} {line}" for number, line in enumerate(STEPS)]
    text = "\n".join([*rows[:10], f"{_at(59)} a clock was set", *rows[10:], *RAISED]) + "\n"
    (found,) = _findings(tmp_path, text, "out.log")
    assert "oldest first" not in found.evidence[0].source


def test_loki_s_streams_in_the_order_of_their_times(tmp_path: Path) -> None:
    lines = [*STEPS, *RAISED]
    values = [[str(1772445600000000000 + number), line] for number, line in enumerate(lines)]
    result = [
        {"stream": {"pod": "w-2"}, "values": values[::-1]},
        {"stream": {"pod": "w-3"}, "values": [["1772445600000000001", "step 1"]]},
    ]
    (found,) = _findings(
        tmp_path, json.dumps({"status": "success", "data": {"resultType": "streams", "result": result}})
    )
    assert found.nodes == ("w-2",)


def test_elastic_s_hits(tmp_path: Path) -> None:
    hits = [{"_id": str(n), "_source": {"message": line, "host": "w-2"}} for n, line in enumerate(STEPS + RAISED)]
    (found,) = _findings(tmp_path, json.dumps({"took": 3, "hits": {"total": 24, "hits": hits}}))
    assert found.nodes == ("w-2",)


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1}, {"b": 2}]',
        '[{"message": 3}]',
        '{"events": 1}',
        '{"data": {"result": [1, {"stream": 1}]}}',
        "[{",
        "[[" * 50000,
    ],
)
def test_other_documents_are_left_as_they_are(text: str, tmp_path: Path) -> None:
    assert not _findings(tmp_path, text)


@pytest.mark.parametrize(
    "bomb",
    [
        '[{"message":"a"},' + "{}," * 250_000 + "{}]",
        '[{"message":"a","values":[' + "1," * 2_100_000 + "1]}]",
        "".join(f"2026-01-02 03:04:{59 - number:02d} step\n" for number in range(60)) + "\n" * 2_100_000,
    ],
    ids=["objects", "values", "lines"],
)
def test_what_is_small_on_disk_and_large_in_memory_is_read_as_it_stands(tmp_path: Path, bomb: str) -> None:
    (tmp_path / "out.json").write_text(bomb)
    tracemalloc.start()
    try:
        read([tmp_path])
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
