"""cpu_starved: a rank that does not get its CPU while the others do, and why; and load that is no reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.samples.host import HostFacts, HostSample
from collectors.samples.stream import SourceState
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.rules.cpu_time import cpus_of
from tests.support.jobs import COMPUTING, NOW, Sketch, alarms, first


def job(nodes: int = 2, *, state: str = "ok", link: str = "live") -> Sketch:
    """Four ranks that train; the source ``cpus`` of their nodes answers, or is in another state."""
    made = Sketch(patience=60.0, watched=60.0)
    made.ranks().at(COMPUTING, state="R").pulse(cores=0.5, switches=40.0)
    made.motion = JobMotion(moving=True, proof="steps 4 to 9 in 5 s", last_step=9, step_s=1.0)
    for number in range(1, nodes + 1):
        made.node(f"node{number}", link=link, sources={"cpus": SourceState("cpus", state, "", NOW - 60.0)})
    return made


def test_a_nice_value_that_the_others_do_not_have() -> None:
    told = job()
    told.ranks(1).waits_for_cpu(50, nice=19)
    told.ranks(0).waits_for_cpu(0)
    found = first(told.verdict())
    assert (found.kind, found.ranks) == ("cpu_starved", (1,))
    assert "nice 19, so that others on the node run first" in found.summary


def test_a_nice_value_of_the_whole_job_keeps_nobody_from_a_cpu() -> None:
    told = job()
    told.ranks(1).waits_for_cpu(50, nice=10)
    assert not alarms(told.verdict()), "of the others nothing is known"
    told.ranks(0, 2, 3).waits_for_cpu(5, nice=10)
    assert not alarms(told.verdict())


def test_ranks_that_are_bound_to_one_cpu() -> None:
    told = job()
    told.ranks(2, 3).waits_for_cpu(50, allowed="3")
    assert "ranks 2-3 may run on CPU 3 alone" in first(told.verdict()).summary


def test_one_rank_that_is_bound_to_one_cpu() -> None:
    told = job()
    told.ranks(3).waits_for_cpu(35, allowed="7")
    assert "rank 3 may run on CPU 7 alone" in first(told.verdict()).summary


def loaded(told: Sketch, *loads: float) -> Sketch:
    """Nodes of 16 CPUs with these loads of a minute."""
    for number, load in enumerate(loads, 1):
        node = told.made_nodes[f"node{number}"]
        sample = HostSample(load, 1, 1 << 30, None, None, None)
        facts = HostFacts(16, 1 << 36, NOW - 9000.0, {}, {})
        told.made_nodes[node.name] = replace(node, load=sample, host=facts)
    return told


def test_a_node_that_has_more_to_do_than_cpus_while_the_others_have_not() -> None:
    told = loaded(job(), 3.2, 48.0)
    told.ranks(2, 3).waits_for_cpu(50)
    found = first(told.verdict())
    assert (found.kind, found.nodes) == ("cpu_starved", ("node2",))
    assert "48 tasks want to run on node2's 16 CPUs, 3.0 a CPU; on the other nodes 0.2" in found.summary


@pytest.mark.parametrize("loads", [(3.2, 20.0), (20.0, 48.0), (48.0, 48.0)])
def test_a_load_that_is_no_reason(loads: tuple[float, float]) -> None:
    told = loaded(job(), *loads)
    told.ranks(2, 3).waits_for_cpu(50)
    assert alarms(told.verdict()) == []


def test_load_without_a_reason_is_none() -> None:
    told = job()
    told.ranks(3).waits_for_cpu(60)
    assert alarms(told.verdict()) == []


def test_all_that_wait_alike_are_not_told_apart() -> None:
    told = job()
    told.ranks().waits_for_cpu(60, allowed="3")
    assert alarms(told.verdict()) == []
    told = job()
    told.ranks(0, 1, 2).waits_for_cpu(60, allowed="3")
    assert alarms(told.verdict()) == []


def test_others_that_wait_nearly_as_much() -> None:
    told = job()
    told.ranks(0, 1, 2).waits_for_cpu(20)
    told.ranks(3).waits_for_cpu(40, allowed="3")
    assert alarms(told.verdict()) == []


@pytest.mark.parametrize(("state", "link"), [("absent", "live"), ("ok", "lost")])
def test_kernels_that_do_not_count_and_nodes_that_are_gone_say_nothing(state: str, link: str) -> None:
    told = job(state=state, link=link)
    told.ranks(3).waits_for_cpu(60, allowed="3")
    assert "cpu_starved" not in alarms(told.verdict())


def test_the_kernels_lists() -> None:
    assert [cpus_of(text) for text in ("0", "0-15,32", "2,4-5")] == [1, 17, 3]
    assert [cpus_of(text) for text in ("", "x", "5-2", "1-", "9" * 5000)] == [None] * 5


@given(st.text(max_size=40))
def test_any_list_is_a_number_or_none(text: str) -> None:
    found = cpus_of(text)
    assert found is None or found > 0
