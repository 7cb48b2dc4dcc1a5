"""Real ranks that do not say which rank they are: found, and named by host and pid when one is stuck."""

from __future__ import annotations

import pytest

from tests.support.faulty import Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


def test_without_a_number_it_is_named_by_host_and_pid(nursery: Nurseries) -> None:
    first = {"node1": {"HX_FIRST": "0"}, "node2": {"HX_FIRST": "2"}}
    job = nursery.launch("unnumbered.py", "unnumbered", ranks_per_node=1, numbered=False, per_node=first)
    job.wait_for("struck", 1)
    answer = Triage(nursery.cluster, case=job.case).answer()
    job.end()
    pid = job.said(1).partition("struck ")[2].split()[0]
    assert answer.named() == ("hung", "rank_stuck_in_data", [])
    finding = answer.findings[0]
    assert (finding["processes"], finding["nodes"]) == ([f"node2:{pid}"], ["node2"])
    assert f"process {pid} on node2" in finding["summary"]
    assert len(answer.data["job"]["processes_unnumbered"]) == 4, "those that only started them are none"
    assert answer.alarms == ["rank_stuck_in_data"]
