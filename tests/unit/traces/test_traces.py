"""Profiler traces: real ones of gloo on torch 2.13, CUDA's in Kineto's text, damaged ones; what they prove together."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from collectors.formats import BadFormat, kineto, trace_events
from collectors.samples.collectives import RankTrace, TraceCall
from hangtop.diagnosis import traces
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from tests.support.traces import collective, document, rank_document

TRACES = Path(__file__).parent.parent.parent / "fixtures" / "traces"
EMPTY = RankTrace("", None, None, 1, "", None, 1.0, 0.5, 0.2, 0.1, 0.1, 0.0, [])


def read(text: str, name: str = "trace.json") -> RankTrace:
    return kineto.of_stream(io.BytesIO(text.encode()).read, name)


def real(name: str) -> RankTrace:
    with gzip.open(TRACES / f"{name}.json.gz") as file:
        return kineto.of_stream(file.read, name)


def test_a_gpu_s_time() -> None:
    trace = read(rank_document(1))
    assert (trace.rank, trace.world_size, trace.why, trace.began) == (1, 2, "", 1_763_606_820)
    assert (trace.wall, trace.compute, trace.communication) == pytest.approx((0.6, 0.39, 0.18))
    assert (trace.exposed, trace.idle, trace.data) == pytest.approx((0.12, 0.09, 0))


def test_what_a_collective_says_of_itself() -> None:
    trace = read(document([collective(10, 3, number=41, elements=1 << 20), collective(2, 5, number=40)]))
    assert trace.calls == [
        TraceCall("all_reduce", "0 default_pg [0, 1]", 0.005, 40),
        TraceCall("all_reduce", "0 default_pg [0, 1]", 0.003, 41),
    ]


@pytest.mark.parametrize("chunk", [7, 100, 1 << 20])
def test_chunks_of_any_size_say_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(rank_document(0))
    monkeypatch.setattr(trace_events, "CHUNK", chunk)
    assert read(rank_document(0)) == whole


def test_the_rank_may_stand_behind_the_events_or_in_the_name() -> None:
    events = [collective(1, 1)]
    assert read(document(events, 6, after=True)).rank == 6
    for name, rank in (("rank_12.json", 12), ("vm_41235.1763606820123.pt.trace.json", None)):
        assert read(document(events, None), name).rank == rank


def test_a_truncated_trace_gives_what_it_has() -> None:
    text = rank_document(0)
    trace = read(text[: len(text) // 2])
    assert (trace.why, trace.rank) == ("it ends before its last event", 0)
    assert 12 < trace.events < 30


@pytest.mark.parametrize("text", ["", "{}", "hello", '{"traceEvents": 5}', "[1,2]"])
def test_what_is_no_trace(text: str) -> None:
    with pytest.raises(BadFormat, match=r"no trace|empty"):
        read(text)


# --- what they prove together ------------------------------------------------------------------------------------


def judged(*seen: RankTrace) -> list[Finding]:
    return list(traces.straggler_rank(Job(0.0, 0.0, live=False, traces=traces.picture(seen))))


def rank_with(rank: int, *seconds: float) -> RankTrace:
    """A rank whose collectives take so long and end every second."""
    calls = [TraceCall("all_reduce", "", one, None) for one in seconds]
    return EMPTY._replace(rank=rank, world_size=4, path=f"{rank}.json", calls=calls, wall=float(len(calls)))


def test_a_real_straggler() -> None:
    (late,) = judged(*(real(f"straggler_rank{rank}") for rank in range(4)))
    assert (late.kind, late.ranks, late.cause) == ("straggler_rank", (1,), "")
    assert "it computes longer" in late.summary


def test_of_real_ranks_that_all_wait_for_data_none_is_late() -> None:
    assert judged(*(real(f"data_rank{rank}") for rank in range(2))) == []


def test_a_straggler_on_gpus() -> None:
    (found,) = judged(*(read(rank_document(rank, late_ms=12.0 if rank == 2 else 0.0)) for rank in range(4)))
    assert (found.kind, found.ranks, "12%" in found.summary) == ("straggler_rank", (2,), True)


def test_healthy_ranks_and_a_late_one_that_costs_little_are_not_accused() -> None:
    even = [rank_with(rank, *(0.05 + 0.001 * ((rank * 7 + n * 3) % 5) for n in range(40))) for rank in range(4)]
    assert judged(*even) == []
    assert judged(*(rank_with(rank, *[0.010 if rank else 0.008] * 40) for rank in range(4))) == []
