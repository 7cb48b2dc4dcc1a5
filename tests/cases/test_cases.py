"""The cases of this folder, a file a cause: each fault is named with the right ranks, each healthy twin left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from hangtop.session.replay import played
from tests.cases.play import Case, Player, cases
from tui.actions import ACTIONS, shown_keys

CASES = list(cases())
FAULTS = [case for case in CASES if case.ranks or case.at]
KEYS = {"", *(key for action in ACTIONS for key in shown_keys(action.keys))}
"""Keys of the screen; an empty one for a command that has none."""
HEALTHY = [case for case in CASES if case not in FAULTS] + [case.healthy() for case in FAULTS if case.twin]


def each(chosen: list[Case]) -> list[ParameterSet]:
    """These cases; one that is known to be missed must fail until it is mended."""
    return [
        pytest.param(case, id=case.id, marks=pytest.mark.xfail(reason=case.missed, strict=True) if case.missed else ())
        for case in chosen
    ]


@pytest.mark.parametrize("case", each(FAULTS))
def test_a_fault_is_named_and_its_recording_gets_the_same_answer(case: Case, tmp_path: Path) -> None:
    player = Player(case)
    player.session.recordings.record(tmp_path / "case.hangtop")
    verdict = player.play().diagnose()
    player.session.recordings.close()
    again = played(tmp_path / "case.hangtop").diagnose()
    assert (again.outcome, again.summary) == (verdict.outcome, verdict.summary)
    assert verdict.findings, verdict.summary
    assert verdict.outcome in case.words, verdict.summary
    assert verdict.findings[0].ranks == case.ranks, verdict.summary
    assert not case.at or verdict.findings[0].nodes == (case.at,)
    assert not case.kind or verdict.findings[0].kind == case.kind
    assert KEYS.issuperset(step.key for found in verdict.findings for step in found.next), "a key that does nothing"


@pytest.mark.parametrize("case", each(HEALTHY))
def test_a_healthy_job_is_left_alone(case: Case) -> None:
    verdict = Player(case).play().diagnose()
    assert verdict.outcome in case.words, verdict.summary
    assert [found.summary for found in verdict.findings if found.severity == "critical" and found.ranks] == []
