"""Ranks that end while the others need them: the first to fail is told from its victims, live and afterwards."""

from __future__ import annotations

import signal

import pytest

from tests.support.faulty import Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

WATCH = ("--watch", "20")
"""Long, for a slow machine: what is sure is answered before."""


def test_first_failure_and_victims(nursery: Nurseries) -> None:
    """Three jobs side by side: one rank killed, one that raises, one out of GPU memory; all while being watched."""
    now = nursery.cluster.shared / f"now-{len(nursery.jobs)}"
    when = {"HX_WHEN": str(now)}
    killed = nursery.launch("lm.py", "killed")
    raised = nursery.launch("vision.py", "raised", env={"HX_FAULT": "raise", "HX_WHO": "2", **when})
    memory = nursery.launch("vision.py", "memory", env={"HX_FAULT": "gpu_memory", "HX_WHO": "0", **when})
    for job in (killed, raised, memory):
        job.wait_for("moves")
    asked = [Triage(nursery.cluster, *WATCH, case=job.case) for job in (killed, raised, memory)]
    for one in asked:
        one.await_watching(4)
    now.touch()
    killed.signal(1, signal.SIGKILL)
    of_killed, of_raised, of_memory = (one.answer() for one in asked)

    assert of_killed.named() == ("crashed", "rank_killed", [1])
    assert of_killed.findings[0]["nodes"] == ["node1"]
    assert of_raised.named() == ("crashed", "rank_crashed", [2])
    assert "KeyError" in of_raised.data["summary"]
    assert "check_ranges" in of_raised.data["summary"]
    assert of_memory.named() == ("crashed", "gpu_out_of_memory", [0])
    assert "20.00 GiB" in of_memory.data["summary"]
    for answer in (of_killed, of_raised, of_memory):
        rest = [(finding["kind"], finding["summary"]) for finding in answer.findings[1:] if not finding["cause"]]
        assert not rest, "the rest are consequences, and say of what"

    # afterwards: no process is left, the logs are named by hand
    late = [Triage(nursery.cluster, "--log", str(job.folder / "*.err"), case=job.case) for job in (killed, raised)]
    of_killed, of_raised = (one.answer() for one in late)
    assert of_killed.named() == ("crashed", "rank_killed", [1])
    assert of_raised.named() == ("crashed", "rank_crashed", [2])
