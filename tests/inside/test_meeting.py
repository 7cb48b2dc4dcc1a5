"""Who fails before a check, in the midst of it, comes to another one, or has no part in it: nobody waits in vain."""

from __future__ import annotations

import time

import pytest

from hangtop.inside import barrier, check_same
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
WORLD = 3


def test_a_rank_that_cannot_say_its_part_is_named_and_nobody_waits_for_it() -> None:
    def work(rank: int) -> CheckResult:
        return check_same(3 if rank == 1 else torch.ones(2), seconds=600)

    for result in run_ranks(WORLD, work):
        (finding,) = result.findings
        assert finding.kind == "check_incomplete"
        assert list(finding.ranks) == [1]
        assert "could not be made on rank 1: TypeError: cannot compare a int" in finding.summary


def test_what_others_gave_up_is_no_answer_to_a_later_check() -> None:
    def work(rank: int) -> CheckResult:
        value = torch.zeros(2)
        for turn in range(2):  # the same line: a rank that left one out is one behind in all later ones
            if turn == 0 and rank == 0:
                time.sleep(5)
                continue
            result = check_same(value + turn, seconds=1)
        return result

    for result in run_ranks(WORLD, work):
        assert [finding.kind for finding in result.findings] == ["check_incomplete"]


def test_a_barrier_ends_in_time_and_names_the_absent() -> None:
    def work(rank: int) -> list[CheckResult]:
        first = barrier(20.0)
        return [first] if rank == 1 else [first, barrier(1.0)]

    results = run_ranks(3, work)
    assert all(found[0] for found in results)
    missed = results[0][1]
    assert not missed
    assert list(missed.findings[0].ranks) == [1]
    assert missed.findings[0].evidence[0].startswith("rank 1 was last seen in check barrier at test_meeting.py:")
