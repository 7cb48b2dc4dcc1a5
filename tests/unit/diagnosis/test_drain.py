"""The command that takes a node at fault out: in the words of the scheduler, quoted, and for such nodes alone."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.processes.environ import presentable as may_leave
from hangtop.diagnosis.finding import Finding, Severity
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.verdict.drain import NODE_AT_FAULT, SEVERE, drain_commands, with_drain
from tests.support.made import hello, process

SLURM = {"SLURM_JOB_ID": "17"}


def job(env: dict[str, str], *, count: int = 2, own_pid: int = 0) -> Job:
    names = [f"gpu{number}" for number in range(count)]
    ranks = tuple(Rank(number, name, process(number, env=env, own_pid=own_pid)) for number, name in enumerate(names))
    nodes = {name: Node(name, hello=hello(hostname=f"{name}.cluster.example")) for name in names}
    return Job(now=1.0, watched=1.0, live=True, ranks=ranks, nodes=nodes)


def next_of(
    env: dict[str, str], kind: str = "gpu_lost", severity: Severity = "critical", **fields: object
) -> list[str]:
    nodes = fields.pop("nodes", ("gpu1",))
    own_pid = fields.pop("own_pid", 0)
    assert isinstance(own_pid, int)
    finding = Finding(kind, severity, 0.9, "GPU 3 fell off the bus", nodes=nodes, **fields)  # type: ignore[arg-type]
    (found,) = with_drain(job(env, own_pid=own_pid), (finding,))
    return [step.command for step in found.next]


def test_slurm_by_its_own_name_for_the_node() -> None:
    reason = "'reason=hangtop: gpu_lost: GPU 3 fell off the bus'"
    assert next_of(SLURM) == [f"scontrol update nodename=gpu1 state=drain {reason}"]
    assert next_of({**SLURM, "SLURMD_NODENAME": "cn-7"}) == [f"scontrol update nodename=cn-7 state=drain {reason}"]


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_kubernetes_seen_from_its_nodes() -> None:
    assert next_of(POD, own_pid=7) == ["kubectl cordon gpu1.cluster.example"]
    assert next_of({**POD, "NODE_NAME": "worker-b"}, own_pid=7) == ["kubectl cordon worker-b"]


def test_a_pod_that_hangtop_is_in_is_no_node() -> None:
    """By ``kubectl exec``, or an sshd in it: what calls itself gpu1 is the pod, and no node."""
    assert next_of(POD) == []
    for name in ("NODE_NAME", "K8S_NODE_NAME"):
        assert next_of({**POD, name: "worker-b"}) == ["kubectl cordon worker-b"]
        assert may_leave({name: "worker-b"}) == {name: "worker-b"}


@pytest.mark.parametrize(
    "name", ["ALL", "all", "gpu[1-99]", "gpu0,gpu2", "--selector=a", "-l", "a b", "a;rm", "$(x)", "n\n"]
)
def test_no_user_names_other_nodes_than_one(name: str) -> None:
    assert next_of({**SLURM, "SLURMD_NODENAME": name})[0].startswith("scontrol update nodename=gpu1 ")
    assert next_of({**POD, "NODE_NAME": name}, own_pid=7) == ["kubectl cordon gpu1.cluster.example"]
    whole = job({**SLURM, "SLURMD_NODENAME": name})
    liars = {key: Node(key, hello=hello(hostname=name)) for key in whole.nodes}
    lied = Job(now=1.0, watched=1.0, live=True, ranks=whole.ranks, nodes=liars)
    assert drain_commands(lied, ["gpu1"], "x") == []


def test_a_silent_node_has_its_job_s_scheduler() -> None:
    whole = job(SLURM)
    without = Job(now=1.0, watched=1.0, live=True, ranks=whole.ranks[:1], nodes=whole.nodes)
    assert drain_commands(without, ["gpu1"], "x")[0].startswith("scontrol update nodename=gpu1 ")


@pytest.mark.parametrize(
    ("env", "kind", "severity", "fields"),
    [
        ({}, "gpu_lost", "critical", {}),
        (SLURM, "rank_stuck_in_data", "critical", {}),
        (SLURM, "gpu_xid", "warning", {}),
        (SLURM, "gpu_lost", "critical", {"cause": "node_unreachable"}),
        (SLURM, "gpu_lost", "critical", {"nodes": ()}),
        (SLURM, "gpu_lost", "critical", {"nodes": tuple(f"n{number}" for number in range(20))}),
    ],
)
def test_nobody_else_is_drained(env: dict[str, str], kind: str, severity: Severity, fields: dict[str, object]) -> None:
    assert next_of(env, kind, severity, **fields) == []


def test_the_kinds_are_known() -> None:
    assert {word_of(kind) for kind in NODE_AT_FAULT | SEVERE} <= {"at_risk", "slow"}
    assert SEVERE <= NODE_AT_FAULT


@given(st.text(), st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_whatever_a_node_says_stays_one_word(reason: str, names: list[str]) -> None:
    for command in drain_commands(job(SLURM), names, reason):
        assert len(shlex.split(command)) == 5
