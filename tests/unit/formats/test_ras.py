"""Reports of NCCL's RAS, text and JSON, also the invalid JSON of 2.28.7."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.formats import BadFormat, ras
from collectors.samples.collectives import RasRank

FIXTURES = Path(__file__).parents[2] / "fixtures" / "ras"
MISMATCH, INCOMPLETE, ALONE = ((FIXTURES / f"{name}.txt").read_text() for name in ("mismatch", "incomplete", "alone"))


def test_the_minority_is_listed_and_the_majority_follows() -> None:
    report = ras.parse(MISMATCH, at=7.0)
    assert report.at == 7.0
    first, second = report.communicators
    assert (first.comm, first.size, first.ok) == ("0xfa93daea854b060b", 32, False)
    assert {rank.rank: rank.counts["AllGather"] for rank in first.ranks} == {
        rank: 640 if rank in (12, 13) else 641 for rank in range(32)
    }
    assert (first.ranks[12].host, first.ranks[12].pid) == ("10.0.0.124", 323032)
    assert (second.size, second.ok, second.ranks) == (4, True, [])


def test_a_missing_rank() -> None:
    (only,) = ras.parse(INCOMPLETE, at=7.0).communicators
    assert (only.size, only.ok, only.ranks) == (32, False, [RasRank(21, "", 0, {})])


def test_one_rank_alone_has_its_figure_in_its_own_line() -> None:
    (first, _) = ras.parse(ALONE, at=0.0).communicators
    ranks = {rank.rank: rank for rank in first.ranks}
    assert ranks[12] == RasRank(12, "10.0.0.124", 323032, {"AllReduce": 6, "Broadcast": 0})
    assert ranks[5] == RasRank(5, "", 0, {"AllReduce": 7, "Broadcast": 1})
    assert len(ranks) == 32


def test_ranks_whose_status_differs_have_launched_what_the_others_have() -> None:
    other = "  Communicator ranks have different status\n"
    other += "  Rank 3 has status ABORT -- GPU 3 managed by process 7 on node n1\n"
    (first, _) = ras.parse(ALONE + other, at=0.0).communicators
    assert first.ranks[3] == RasRank(3, "n1", 7, {"AllReduce": 7, "Broadcast": 0})


@pytest.mark.parametrize("text", [MISMATCH, INCOMPLETE, ALONE])
def test_reports_as_people_paste_them(text: str) -> None:
    """Indented as a whole, and cut where the terminal ended: a job that runs has no closing section."""
    whole = ras.parse(text, at=0.0)
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    assert ras.parse(indented, at=0.0) == whole
    for end in range(indented.index("Communicators...") + 16, len(indented), 11):
        assert len(ras.parse(indented[:end], at=0.0).communicators) <= len(whole.communicators)


RANK = {"rank": 0, "host": "10.0.0.1", "pid": 71, "cuda_dev": 0, "nvml_dev": 0, "status": {"async_error": 0},
        "collective_counts": {"Broadcast": 1, "AllReduce": 12}}  # fmt: skip
GONE = {"rank": 1, "host": "10.0.0.2", "pid": 72, "cuda_dev": 1, "nvml_dev": 1, "status": {"unresponsive": True}}
COMM = {"hash": "0xae94", "size": 2, "ranks": [RANK], "missing_ranks": [GONE]}
REPORT = json.dumps({"nccl_version": "2.28.7", "timestamp": "2026-11-20 02:47:00", "communicators": [COMM]}, indent=2)


@pytest.mark.parametrize("text", ["OK\n" + REPORT, REPORT.replace('"nvml_dev": 1,\n', '"nvml_dev": 1\n')])
def test_json_also_without_the_comma_that_2_28_7_forgets(text: str) -> None:
    report = ras.parse(text, at=0.0)
    (only,) = report.communicators
    assert only.ranks == [RasRank(0, "10.0.0.1", 71, {"Broadcast": 1, "AllReduce": 12}), RasRank(1, "10.0.0.2", 72, {})]
    assert (only.ok, report.at > 0) == (False, True)


@pytest.mark.parametrize("text", ["", "ERROR: unknown command", '{"communicators": [', '{"a": 1}'])
def test_what_is_no_report(text: str) -> None:
    with pytest.raises(BadFormat):
        ras.parse(text, at=0.0)
