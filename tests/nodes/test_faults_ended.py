"""Ranks that end while the others need them: the first to fail is told from its victims, live and afterwards."""

from __future__ import annotations

import signal

import pytest

from tests.support.faulty import Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

WATCH = ("--watch", "20")
"""Long, for a slow machine: what is sure is answered before."""


def test_first_failure_and_victims(nursery: Nurseries) -> None:
    """Two jobs side by side, a rank of one killed and one of the other that raises, while both are watched."""
    now = nursery.cluster.shared / f"now-{len(nursery.jobs)}"
    when = {"HX_WHEN": str(now)}
    killed = nursery.launch("lm.py", "killed")
    raised = nursery.launch("vision.py", "raised", env={"HX_FAULT": "raise", "HX_WHO": "2", **when})
    for job in (killed, raised):
        job.wait_for("moves")
    asked = [Triage(nursery.cluster, *WATCH, case=job.case) for job in (killed, raised)]
    for one in asked:
        one.await_watching(4)
    now.touch()
    killed.signal(1, signal.SIGKILL)
    of_killed, of_raised = (one.answer() for one in asked)

    assert of_killed.named() == ("crashed", "rank_killed", [1])
    assert of_killed.findings[0]["nodes"] == ["node1"]
    assert of_raised.named() == ("crashed", "rank_crashed", [2])
    assert "KeyError" in of_raised.data["summary"]
    assert "check_ranges" in of_raised.data["summary"]
    for answer in (of_killed, of_raised):
        rest = [(finding["kind"], finding["summary"]) for finding in answer.findings[1:] if not finding["cause"]]
        assert not rest, "the rest are consequences, and say of what"

    # afterwards: no process is left, logs are named by hand
    late = Triage(nursery.cluster, "--log", str(killed.folder / "*.err"), case=killed.case).answer()
    assert late.named() == ("crashed", "rank_killed", [1])
