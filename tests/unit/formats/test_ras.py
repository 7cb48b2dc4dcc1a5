"""Reports of NCCL's RAS, text and JSON, also the invalid JSON of 2.28.7."""

from __future__ import annotations

import json

import pytest

from collectors.formats import BadFormat, ras
from collectors.samples.collectives import RasRank

HEAD = """NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
MISMATCH = (
    HEAD
    + """    0         1         4         8        32        32   RUNNING  MISMATCH
    1         8         4         1         4        32   RUNNING      OK

Errors
======

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 641
  2 ranks have launched up to operation 640
  Rank 12 -- GPU 4 managed by process 323032 on node 10.0.0.124
  Rank 13 -- GPU 5 managed by process 323033 on node 10.0.0.124
"""
)
INCOMPLETE = (
    HEAD
    + """    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""
)


def test_the_minority_is_listed_and_the_majority_follows() -> None:
    report = ras.parse(MISMATCH, node="n1", at=7.0)
    assert (report.node, report.at) == ("n1", 7.0)
    first, second = report.communicators
    assert (first.comm, first.size, first.ok) == ("0xfa93daea854b060b", 32, False)
    assert [rank.rank for rank in first.ranks] == list(range(32))
    assert {rank.rank for rank in first.ranks if rank.counts == {"AllGather": 640}} == {12, 13}
    assert {rank.rank for rank in first.ranks if rank.counts == {"AllGather": 641}} == set(range(32)) - {12, 13}
    assert (first.ranks[12].host, first.ranks[12].pid) == ("10.0.0.124", 323032)
    assert (second.size, second.ok, second.ranks) == (4, True, [])


def test_a_missing_rank() -> None:
    (only,) = ras.parse(INCOMPLETE, node="n1", at=7.0).communicators
    assert (only.size, only.ok, only.ranks) == (32, False, [RasRank(21, "", 0, {})])


ALONE = (
    MISMATCH[: MISMATCH.index("  30 ranks")].replace("AllGather", "AllReduce")
    + """  31 ranks have launched up to operation 7
  Rank 12 has launched up to operation 6 -- GPU 4 (NVML 6) managed by process 323032 on node 10.0.0.124

  Communicator ranks have different Broadcast operation counts
  31 ranks have not launched any operations
  Rank 5 has launched up to operation 1 -- [process information not found]

"""
)


def test_one_rank_alone_has_its_figure_in_its_own_line() -> None:
    (first, _) = ras.parse(ALONE, node="", at=0.0).communicators
    by_rank = {rank.rank: rank for rank in first.ranks}
    assert by_rank[12].counts == {"AllReduce": 6, "Broadcast": 0}
    assert (by_rank[12].host, by_rank[12].pid) == ("10.0.0.124", 323032)
    assert by_rank[5].counts == {"AllReduce": 7, "Broadcast": 1}
    assert by_rank[5].pid == 0
    assert len(by_rank) == 32


@pytest.mark.parametrize("text", [MISMATCH, INCOMPLETE, ALONE])
def test_reports_as_people_paste_them(text: str) -> None:
    """Indented as a whole, and cut where the terminal ended: a job that runs has no closing section."""
    whole = ras.parse(text, node="", at=0.0)
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    assert ras.parse(indented, node="", at=0.0) == whole
    for end in range(indented.index("Communicators...") + 16, len(indented), 11):
        assert len(ras.parse(indented[:end], node="", at=0.0).communicators) <= len(whole.communicators)


RANK = {"rank": 0, "host": "10.0.0.1", "pid": 71, "cuda_dev": 0, "nvml_dev": 0, "status": {"async_error": 0},
        "collective_counts": {"Broadcast": 1, "AllReduce": 12}}  # fmt: skip
GONE = {"rank": 1, "host": "10.0.0.2", "pid": 72, "cuda_dev": 1, "nvml_dev": 1, "status": {"unresponsive": True}}
COMM = {"hash": "0xae94", "size": 2, "ranks": [RANK], "missing_ranks": [GONE]}
REPORT = json.dumps({"nccl_version": "2.28.7", "timestamp": "2026-11-20 02:47:00", "communicators": [COMM]}, indent=2)


@pytest.mark.parametrize("text", ["OK\n" + REPORT, REPORT.replace('"nvml_dev": 1,\n', '"nvml_dev": 1\n')])
def test_json_also_without_the_comma_that_2_28_7_forgets(text: str) -> None:
    report = ras.parse(text, node="n1", at=0.0)
    (only,) = report.communicators
    assert only.ranks == [RasRank(0, "10.0.0.1", 71, {"Broadcast": 1, "AllReduce": 12}), RasRank(1, "10.0.0.2", 72, {})]
    assert (only.ok, report.at > 0) == (False, True)


@pytest.mark.parametrize("text", ["", "ERROR: unknown command", '{"communicators": [', '{"a": 1}'])
def test_what_is_no_report(text: str) -> None:
    with pytest.raises(BadFormat):
        ras.parse(text, node="", at=0.0)
