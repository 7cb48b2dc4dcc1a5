"""Preflight's checks: each turns red on its fault, names the node, and stays green on a good cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.gpus import GpuFacts, GpuFault
from collectors.samples.host import Interface, PortFacts
from collectors.samples.probes import Observation
from collectors.samples.stream import SourceState
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Gpu, Node, Port
from hangtop.diagnosis.preflight import CheckCell, Preflight
from hangtop.diagnosis.preflight_table import cells, findings
from tests.support.made import made_node

GIB = 1 << 30


def answers(name: str, **changed: Observation) -> tuple[Observation, ...]:
    """What a healthy node says, with some answers replaced."""
    good = {
        "loopback": Observation("loopback", "", True, ""),
        "memlock": Observation("limit", "memlock", [-1, -1], ""),
        "shm": Observation("disk", "/dev/shm", [64 * GIB, 60 * GIB], ""),
        "ptrace": Observation("ptrace", "", [1, True, True], ""),
        "resolve": Observation("resolve", "node1", ["10.0.0.1"], ""),
        "connect": Observation("connect", "10.0.0.1:29500", 0.0004, ""),
    }
    if name == "node1":
        good["listen"] = Observation("listen", "29500", 29500, "")
    return tuple((good | changed).values())


def node(name: str, mtu: int = 9000, state: str = "ACTIVE") -> Node:
    phys = "LinkUp" if state == "ACTIVE" else "Polling"
    port = Port(facts=PortFacts("mlx5_0", 1, "InfiniBand", state, phys, 400.0))
    gpu = Gpu(0, GpuFacts(0, "GPU-1", "0000:01:00.0", "H100", 80 * GIB, 700.0, 1980, 5, 16))
    interface = Interface("eth0", mtu, 100_000, True, ["10.0.0.1/24"], "physical")
    return made_node(name, gpus=(gpu,), ports=(port,), interfaces=(interface,))


def scene(*nodes: Node, **changed: Observation) -> Preflight:
    """Nodes node1 and node2 (or those given); ``changed`` answers are node2's."""
    every = nodes or (node("node1"), node("node2"))
    return Preflight(
        Job(now=0.0, watched=0.0, live=True, nodes={item.name: item for item in every}),
        {item.name: answers(item.name, **(changed if item.name == "node2" else {})) for item in every},
        ("node1", 29500),
        "node1",
    )


def red(found: list[CheckCell]) -> list[tuple[str, str, str]]:
    return [(cell.node, cell.kind, cell.check) for cell in found if cell.state in ("fail", "warn")]


def test_a_good_cluster_is_green() -> None:
    table = cells(scene())
    assert red(table) == []
    assert not [cell for cell in table if cell.state == "unknown"]
    assert findings(table) == ()


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("preflight_failed", {"loopback": Observation("loopback", "", True, "no answer in 3 s")}),
        ("preflight_failed", {"memlock": Observation("limit", "memlock", [65536, 65536], "")}),
        ("preflight_failed", {"shm": Observation("disk", "/dev/shm", [64 << 20, 64 << 20], "")}),
        ("preflight_failed", {"ptrace": Observation("ptrace", "", [1, False, False], "")}),
        ("path_blocked", {"resolve": Observation("resolve", "node1", [], "Name or service not known")}),
        ("path_blocked", {"resolve": Observation("resolve", "node1", ["127.0.1.1"], "")}),
        ("path_blocked", {"resolve": Observation("resolve", "node1", ["172.17.0.2"], "")}),
        ("path_blocked", {"connect": Observation("connect", "10.0.0.1:29500", None, "no answer in 3 s")}),
        ("preflight_failed", {"pcie": Observation("pcie", "", ["ACS redirects at bridge 0000:00:01.0"], "")}),
    ],
)
def test_a_fault_of_one_node_is_red_there_alone(kind: str, changed: dict[str, Observation]) -> None:
    table = cells(scene(**changed))
    assert [(name, found) for name, found, _ in red(table)] == [("node2", kind)]
    assert table[0].kind == kind, "red comes first"
    (finding,) = findings(table)
    assert finding.nodes == ("node2",)
    assert finding.advice


def test_what_a_slow_node_did_not_answer_is_unknown_and_no_fault_with_a_remedy() -> None:
    slow = Node("node2", seen_at=1.0)
    why = "it was too slow to answer"
    late = replace(scene(node("node1"), slow), answers={"node1": answers("node1")}, silent={"node2": why})
    table = cells(late)
    assert red(table) == []
    theirs = {cell.check: cell for cell in table if cell.node == "node2"}
    assert {"reach", "fabric", "GPUs", "loopback"} <= theirs.keys()
    assert {cell.state for cell in theirs.values()} == {"unknown"}
    assert not any(cell.remedy for cell in theirs.values())
    assert why in theirs["reach"].figure


def test_nodes_that_differ_are_told_apart_from_the_others() -> None:
    three = (node("node1"), node("node2"), node("node3"))
    assert red(cells(scene(three[0], node("node2", mtu=1500), three[2]))) == [("node2", "mtu_mismatch", "MTU")]
    assert red(cells(scene(three[0], node("node2", state="DOWN"), three[2]))) == [("node2", "ib_port_down", "fabric")]
    said = {"gpus": SourceState("gpus", "absent", "", 0.0)}
    bare = replace(three[1], gpus={}, sources=said)
    assert red(cells(scene(three[0], bare, three[2]))) == [("node2", "gpu_lost", "GPUs")]


def test_a_gpu_with_a_fault_is_red_by_the_rule_that_also_judges_jobs() -> None:
    lost = replace(node("node2").gpus[0], fault=GpuFault(0, "0000:01:00.0", "GPU is lost"))
    bad = replace(node("node2"), gpus={0: lost})
    assert red(cells(scene(node("node1"), bad))) == [("node2", "gpu_lost", "hardware")]


def test_a_port_that_is_held_names_the_holder_and_a_free_one() -> None:
    taken = Observation("listen", "29500", ["812 python old.py"], "Address already in use (EADDRINUSE)")
    asked = replace(scene(), answers={"node1": answers("node1", listen=taken), "node2": answers("node2")})
    (cell,) = [cell for cell in cells(asked) if cell.state == "fail"]
    assert cell.kind == "preflight_failed"
    assert "812 python old.py" in cell.figure
    assert "MASTER_PORT" in cell.remedy


def test_a_node_that_cannot_be_reached_is_red_and_asked_nothing_else() -> None:
    gone = replace(node("node2"), link="lost", why="connection timed out")
    table = cells(scene(node("node1"), gone))
    assert red(table) == [("node2", "node_unreachable", "reach")]
    assert [cell.check for cell in table if cell.node == "node2"] == ["reach"]
