"""Traces of the profiler: real ones of gloo on torch 2.13, CUDA's in Kineto's text, damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.formats import kineto, trace_events
from collectors.samples.traces import TraceCall
from tests.support.traces import collective, document, rank_document

TRACES = Path(__file__).parent.parent.parent / "fixtures" / "traces"


def written(folder: Path, text: str | bytes, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_gpu_s_time(tmp_path: Path) -> None:
    trace = kineto.read(str(written(tmp_path, rank_document(1))))
    assert (trace.rank, trace.world_size, trace.device, trace.why) == (1, 2, "gpu", "")
    assert trace.began == 1_763_606_820
    assert (trace.wall, trace.compute, trace.communication) == pytest.approx((0.6, 0.36, 0.18))
    assert (trace.exposed, trace.memcpy, trace.idle, trace.data) == pytest.approx((0.12, 0.03, 0.09, 0))
    assert trace.steps == 6


def test_what_a_collective_says_of_itself(tmp_path: Path) -> None:
    text = document([collective(10, 3, number=41, elements=1 << 20), collective(2, 5, number=40)])
    trace = kineto.read(str(written(tmp_path, text)))
    assert trace.calls == [
        TraceCall("all_reduce", "0 default_pg", "[0, 1]", 0.005, 40),
        TraceCall("all_reduce", "0 default_pg", "[0, 1]", 0.003, 41),
    ]


def test_real_ranks_of_gloo() -> None:
    waits, late = (kineto.read(str(TRACES / f"straggler_rank{rank}.json.gz")) for rank in (0, 1))
    assert (waits.rank, waits.world_size, waits.device, waits.steps, len(waits.calls)) == (0, 4, "cpu", 6, 12)
    assert {call.op for call in waits.calls} == {"all_reduce"}
    assert waits.exposed > 0.9 * waits.wall
    assert late.compute > 0.8 * late.wall


@pytest.mark.parametrize("chunk", [7, 100, 1000, 1 << 20])
def test_chunks_of_any_size_say_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(written(tmp_path, rank_document(0)))
    whole = kineto.read(path)
    monkeypatch.setattr(trace_events, "CHUNK", chunk)
    assert kineto.read(path) == whole


def test_the_rank_may_stand_behind_the_events_or_in_the_name(tmp_path: Path) -> None:
    events = [collective(1, 1)]
    behind = written(tmp_path, document(events, 6, after=True), "a.json")
    assert kineto.read(str(behind)).rank == 6
    nowhere = document(events, None)
    for name, rank in (("rank_12.json", 12), ("vm_41235.1763606820123.pt.trace.json", None)):
        assert kineto.read(str(written(tmp_path, nowhere, name))).rank == rank


def test_a_truncated_trace_gives_what_it_has(tmp_path: Path) -> None:
    text = rank_document(0)
    trace = kineto.read(str(written(tmp_path, text[: len(text) // 2])))
    assert (trace.why, trace.rank) == ("it ends before its last event", 0)
    assert 12 < trace.events < 30


@pytest.mark.parametrize(("cut", "why"), [(20_000, "the compressed data ends too soon"), (None, "")])
def test_compressed(cut: int | None, why: str, tmp_path: Path) -> None:
    data = (TRACES / "straggler_rank0.json.gz").read_bytes()[:cut]
    trace = kineto.read(str(written(tmp_path, data, "x.json.gz")))
    assert trace.why == why
    assert trace.events > 500


@pytest.mark.parametrize("data", [b"", b"{}", b"hello", b'{"traceEvents": 5}', b"\x1f\x8bxx", b"[1,2]"])
def test_what_is_no_trace(data: bytes, tmp_path: Path) -> None:
    trace = kineto.read(str(written(tmp_path, data)))
    assert trace.events == 0
    assert trace.why.startswith(("no trace", "empty", "the compressed data ends"))
