"""What traces prove together: each rule fires on what it is for, and stays silent on what only looks alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.formats import kineto
from collectors.samples.traces import RankTrace, TraceCall
from hangtop.diagnosis import traces
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.rules.inside import traced
from hangtop.session.probes.traces import result
from tests.support.traces import rank_document

TRACES = Path(__file__).parent.parent.parent / "fixtures" / "traces"
EMPTY = RankTrace("", "", None, None, "gpu", 1, 0, "", None, 1.0, 0.5, 0.2, 0.1, 0.0, 0.1, 0.0, [])


def judged(seen: list[RankTrace]) -> dict[str, Finding]:
    return {finding.kind: finding for finding in traces.findings(traces.picture(seen))}


def rank_with(rank: int, seconds: list[float], *, world: int = 4, op: str = "all_reduce", group: str = "") -> RankTrace:
    """A rank whose collectives take so long and end every second."""
    calls = [TraceCall(op, group, "", one, None) for one in seconds]
    return EMPTY._replace(rank=rank, world_size=world, path=f"{rank}.json", calls=calls, wall=float(len(calls)))


def test_a_real_straggler_explains_the_waiting() -> None:
    seen = [kineto.read(str(TRACES / f"straggler_rank{rank}.json.gz")) for rank in range(4)]
    found = traces.findings(traces.picture(seen))
    assert [(f.kind, f.ranks, f.cause) for f in found] == [
        ("straggler_rank", (1,), ""),
        ("communication_bound", (0, 2, 3), "straggler_rank"),
    ]
    assert "it computes longer" in found[0].summary
    assert found[0].weight > 0.8
    assert result(traces.picture(seen)).outcome == "slow"


def test_real_ranks_that_wait_for_data() -> None:
    found = judged([kineto.read(str(TRACES / f"data_rank{rank}.json.gz")) for rank in range(2)])
    assert list(found) == ["data_bound"]
    assert found["data_bound"].ranks == (0, 1)


def test_a_straggler_on_gpus(tmp_path: Path) -> None:
    seen = []
    for rank in range(4):
        path = tmp_path / f"{rank}.json"
        path.write_text(rank_document(rank, late_ms=12.0 if rank == 2 else 0.0))
        seen.append(kineto.read(str(path))._replace(node=f"node{rank}"))
    found = judged(seen)
    assert list(found) == ["straggler_rank"]
    assert (found["straggler_rank"].ranks, found["straggler_rank"].nodes) == ((2,), ("node2",))
    assert "12%" in found["straggler_rank"].summary


def test_healthy_ranks_accuse_nobody() -> None:
    even = [rank_with(rank, [0.05 + 0.001 * ((rank * 7 + n * 3) % 5) for n in range(40)]) for rank in range(4)]
    assert judged(even) == {}
    assert result(traces.picture(even)).outcome == "ok"


def test_a_late_rank_that_costs_little_is_no_straggler() -> None:
    seen = [rank_with(rank, [0.010 if rank else 0.008 for _ in range(40)]) for rank in range(4)]
    assert judged(seen) == {}


@pytest.mark.parametrize(("live", "age", "fires"), [(True, 60, True), (True, 3600, False), (False, 10**8, True)])
def test_traces_count_in_the_verdict_while_they_are_fresh(live: bool, age: float, fires: bool) -> None:
    slow = EMPTY._replace(rank=0, exposed=0.9, communication=0.9, began=2e9 - age)
    job = Job(now=2e9, watched=10.0, live=live, traces=traces.picture([slow]))
    assert [finding.kind for finding in traced(job)] == ["communication_bound"] * fires
    assert list(traced(Job(now=2e9, watched=10.0, live=live))) == []
