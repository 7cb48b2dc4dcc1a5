"""The environment lint: each rule fires on the mistake and leaves the right setting alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from collectors.samples.host import Interface, PortFacts
from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import interface_of
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.lint import RULES
from hangtop.diagnosis.node import Port, Rank
from tests.support.made import made_node, process


def job(*envs: dict[str, str], versions: tuple[dict[str, str], ...] = ()) -> Job:
    """Rank i on node i // 2, with interfaces eth0 and lo, and adapters mlx5_0, mlx5_1, mlx5_10."""
    ranks = tuple(
        Rank(f"node{i // 2}", process(i, env=env, versions=versions[i] if versions else {}, world_size=None))
        for i, env in enumerate(envs)
    )
    interfaces = (
        Interface("lo", 65536, None, True, ["127.0.0.1"], "loopback"),
        Interface("docker0", 1500, None, True, ["172.17.0.1"], "virtual"),
        Interface("eth0", 1500, 10_000, True, ["10.0.0.1"], "physical"),
        Interface("eth1", 1500, 10_000, False, [], "physical"),
    )
    ports = tuple(
        Port(facts=PortFacts(device, 1, "InfiniBand", "ACTIVE", "LinkUp", 400.0))
        for device in ("mlx5_0", "mlx5_1", "mlx5_10")
    )
    nodes = {name: made_node(name, interfaces=interfaces, ports=ports) for name in {rank.node for rank in ranks}}
    return Job(now=0.0, watched=0.0, live=True, nodes=nodes, ranks=ranks)


def lint(found_in: Job) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(found_in)]


def kinds(*envs: dict[str, str]) -> dict[str, Finding]:
    return {finding.kind: finding for finding in lint(job(*envs))}


CLEAN = {
    "NCCL_DEBUG": "INFO",
    "NCCL_SOCKET_IFNAME": "eth",
    "NCCL_IB_HCA": "=mlx5_1",
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_BUFFSIZE": "6291456",
    "NCCL_OOB_NET_IFNAME": "=mlx5_1",
    "NCCL_ALGO": "allreduce:tree;broadcast:ring",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
}


def test_good_settings_raise_nothing() -> None:
    assert lint(job(CLEAN, CLEAN, CLEAN | {"MASTER_ADDR": "node0"}, CLEAN | {"MASTER_ADDR": "10.0.0.1"})) == []


@pytest.mark.parametrize("name", ["NCCL_TIMEOUT", "NCCL_PORT_RANGE", "NCCL_HEARTBEAT_TIMEOUT"])
def test_circulating_advice_is_contradicted_with_the_real_knob(name: str) -> None:
    finding = kinds({name: "1800"})["env_not_wanted"]
    assert "neither NCCL nor torch reads it" in finding.summary
    assert finding.advice == f"Remove {name} unless your script reads it."
    assert "; set " in finding.summary
    assert finding.evidence[0].text == f"{name}=1800"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_TIMEOUT", "1000"),
        ("NCCL_IB_RETRY_CNT", "13"),
        ("NCCL_IB_TIMEOUT", "0"),
        ("NCCL_SOCKET_IFNAME", "lo"),
        ("NCCL_SOCKET_IFNAME", "ens5"),
        ("NCCL_SOCKET_IFNAME", "eth1"),
        ("NCCL_IB_QPS_PER_CONNECTION", "0"),
        ("GLOO_SOCKET_IFNAME", "eth"),
    ],
)
def test_values_that_are_not_accepted(name: str, value: str) -> None:
    assert kinds({name: value})["env_invalid"].evidence[0].text == f"{name}={value}"


@pytest.mark.parametrize(
    ("world", "here", "logged", "wrong"),
    [(2, 2, (), False), (2, None, (), False), (4, 2, (), True), (4, None, (), True), (None, None, (), True),
     (None, None, (2,), False), (None, None, (8,), True)],
)  # fmt: skip
def test_the_loopback_interface_serves_ranks_of_one_node(
    world: int | None, here: int | None, logged: tuple[int, ...], wrong: bool
) -> None:
    """Two of the job's ranks are seen on one node; JAX's processes do not say how many there are, gloo does."""
    wanted = job({"GLOO_SOCKET_IFNAME": "lo"}, {"GLOO_SOCKET_IFNAME": "lo"})
    sizes: dict[str, Any] = {"world_size": world, "local_world_size": here}
    ranks = tuple(dataclasses.replace(one, process=one.process._replace(**sizes)) for one in wanted.ranks)
    said = tuple(LogEvent("job.size", None, None, "", None, "job.out", 1, "", {"size": size}) for size in logged)
    found = lint(dataclasses.replace(wanted, ranks=ranks, events=said, event_nodes=("",) * len(said)))
    assert any("loopback" in finding.summary for finding in found) is wrong


def test_ranks_that_differ_name_the_minority() -> None:
    proto = {"NCCL_PROTO": "Simple"}
    finding = kinds(proto, proto, {"NCCL_PROTO": "LL"}, proto)["env_mismatch"]
    assert finding.ranks == (2,)
    assert finding.severity == "warning"
    assert kinds({"WORLD_SIZE": "4"}, {"WORLD_SIZE": "4"}, {"WORLD_SIZE": "8"})["env_mismatch"].severity == "critical"


def test_versions_that_differ_or_are_known_to_be_bad() -> None:
    versions = ({"nccl": "2.28.5", "torch": "2.10.0"}, {"nccl": "2.28.5", "torch": "2.10.0"}, {"nccl": "2.27.7"})
    found = {finding.kind: finding for finding in lint(job({}, {}, {}, versions=versions))}
    assert found["env_mismatch"].ranks == (2,)
    assert found["nccl_known_bad"].ranks == (0, 1)
    assert lint(job({}, {}, versions=({"nccl": "2.28.9"}, {"nccl": "2.28.9"}))) == []


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [(None, "eth0"), ("eth", "eth0"), ("=lo", "lo"), ("^docker,lo", "eth0"), ("^=docker0,lo", "eth0"), ("ens", None)],
)
def test_the_interface_that_nccl_would_choose(setting: str | None, chosen: str | None) -> None:
    assert interface_of(job({}).nodes["node0"], setting) == chosen
