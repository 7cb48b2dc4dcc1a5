"""What the nodes of a finding share: said where others do not share it, and a guess by names is called one."""

from __future__ import annotations

from dataclasses import replace

from collectors.samples.location import Location
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.verdict.whereabouts import with_whereabouts
from tests.support.jobs import NOW, Sketch

LOST = ("node3", "node4", "node5")


def sketch(**leaves: tuple[str, ...]) -> Sketch:
    """Eight nodes with a rank each, of which those of ``leaf2`` are lost."""
    job = Sketch(world=8, nodes=8)
    of = {f"node{number}": leaf for leaf, numbers in leaves.items() for number in numbers}
    for name in (f"node{number}" for number in range(1, 9)):
        places = (Location("leaf", of[name], "scontrol"), Location("spine", "spine1", "scontrol")) if name in of else ()
        lost = {"link": "lost", "why": "no answer for 20 s", "seen_at": NOW - 20} if name in LOST else {}
        job.node(name, locations=places, **lost)
    return job


def first_of(job: Sketch, kind: str = "node_unreachable") -> Finding:
    return next(finding for finding in job.verdict().findings if finding.kind == kind)


def test_all_lost_nodes_on_one_leaf() -> None:
    found = first_of(sketch(leaf1=("1", "2"), leaf2=("3", "4", "5"), leaf3=("6", "7", "8")))
    assert found.summary.endswith("; all 3 lost nodes hang at one leaf (leaf2, scontrol)")
    assert found.advice.startswith("Look at what they share first: leaf leaf2.")
    assert found.evidence[-1] == Evidence(
        "topology by scontrol", None, "leaf2: node3, node4 and node5; 5 nodes of the job elsewhere"
    )


def test_others_that_hang_there_and_are_well_are_told() -> None:
    found = first_of(sketch(leaf1=("1", "2"), leaf2=("3", "4", "5", "6"), leaf3=("7", "8")))
    beside = ", where 1 other of the job hangs too"
    assert found.summary.endswith(f"; all 3 lost nodes hang at one leaf (leaf2, scontrol){beside}")


def test_what_is_no_more_than_chance_gives_no_advice() -> None:
    found = first_of(sketch(leaf1=("1", "2"), leaf2=("3", "4", "5", "6", "7", "8")))
    assert "hang at one leaf (leaf2, scontrol), where 3 others of the job hang too" in found.summary
    assert "share first" not in found.advice


def test_nothing_is_said_of_what_all_share_or_of_nodes_that_are_not_all_known() -> None:
    for job in (
        sketch(leaf2=tuple("12345678")),
        sketch(leaf1=("1", "2", "3"), leaf2=("4", "5"), leaf3=("6", "7", "8")),
        sketch(leaf1=("1", "2"), leaf2=("3", "4"), leaf3=("6", "7", "8")),
        sketch(),
    ):
        assert "hang at" not in first_of(job).summary


def test_one_node_shares_with_nobody() -> None:
    job = sketch(leaf1=("1", "2"), leaf2=("3", "4", "5"), leaf3=("6", "7", "8"))
    for name in LOST[1:]:
        job.node(name, link="live", seen_at=NOW)
    assert "hang at" not in first_of(job).summary


def test_names_are_a_hint_and_no_witness() -> None:
    job = Sketch(world=4, nodes=4)
    whole = job.job()
    names = ("gpu-r12-n1", "gpu-r12-n2", "gpu-r13-n1", "gpu-r13-n2")
    nodes = dict(zip(names, whole.nodes.values(), strict=True))
    told = Finding("node_unreachable", "critical", 0.9, "2 nodes are gone", nodes=names[:2])
    (found,) = with_whereabouts(replace(whole, nodes=nodes), (told,))
    assert found.summary == "2 nodes are gone; by their names both lost nodes are in one rack (12): a hint, no proof"
    assert found.advice == ""
    assert found.certainty == told.certainty
    plain = {f"gpu{number}": node for number, node in enumerate(whole.nodes.values())}
    told = Finding("node_unreachable", "critical", 0.9, "2 nodes are gone", nodes=("gpu0", "gpu1"))
    assert with_whereabouts(replace(whole, nodes=plain), (told,)) == (told,)


def test_advice_about_settings_is_left_as_it_is() -> None:
    job = sketch(leaf1=("1", "2"), leaf2=("3", "4", "5"), leaf3=("6", "7", "8")).job()
    told = Finding("env_mismatch", "warning", 0.9, "NCCL_ALGO differs", nodes=LOST)
    assert with_whereabouts(job, (told,)) == (told,)
