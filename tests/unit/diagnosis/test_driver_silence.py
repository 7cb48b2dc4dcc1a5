"""A silent nvidia-smi: when it is the driver, and when it is not."""

from __future__ import annotations

from tests.support.jobs import NOW, Sketch, kinds, source

SILENT = "no answer from nvidia-smi"


def silent(ago: float, **others: str) -> list[str]:
    states = {name: source(name, state) for name, state in {"ranks": "ok", "host": "ok", **others}.items()}
    job = Sketch().node("node1", sources={**states, "gpus": source("gpus", "late", SILENT, since=NOW - ago)})
    return kinds(job.verdict())


def test_a_long_silence_on_a_node_that_answers_is_the_driver() -> None:
    assert "gpu_driver_hung" in silent(12.0)


def test_a_short_silence_is_none_yet() -> None:
    assert "gpu_driver_hung" not in silent(6.0)


def test_on_a_node_where_everything_is_late_the_driver_is_not_to_blame() -> None:
    assert "gpu_driver_hung" not in silent(12.0, ranks="late")
    assert "gpu_driver_hung" in silent(12.0, kernel="late", fabric="late")
