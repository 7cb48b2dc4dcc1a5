"""What engines and drivers say, and when it counts."""

from __future__ import annotations

import pytest

from tests.support.jobs import after, first, kinds


def test_what_an_engine_kills_after_its_watchdog() -> None:
    job = after().says("engine.timeout", None, ago=9, call="scheduler", seconds=300, worker=4)
    job.says("process.signal", None, ago=8, signal="KILL", what="Killed")
    assert first(job.verdict()).kind == "watchdog_timeout"


def test_a_driver_that_names_the_gpu_once() -> None:
    job = after()
    job.says("kernel.gpu", None, ago=9, node="node1", problem="lost", bus_id="0000:5e:00")
    job.says("kernel.gpu", None, ago=9, node="node1", problem="lost")
    verdict = job.verdict()
    assert kinds(verdict) == ["gpu_lost"]
    assert first(verdict).gpus == ("node1:0000:5e:00",)


@pytest.mark.parametrize("address", ["\u00b2", "\u0663", "9" * 4000])
def test_an_address_that_a_node_makes_up_ends_no_diagnosis(address: str) -> None:
    job = after()
    job.says("kernel.gpu", None, ago=9, node="node1", problem="lost", bus_id=address)
    assert first(job.verdict()).gpus == (f"node1:{address}",)
