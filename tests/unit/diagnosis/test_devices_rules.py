"""GPUs and ports: broken, slow, or as they are by design."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.gpus import GpuFault, NvlinkCounters
from collectors.samples.host import HostSample
from hangtop.diagnosis.node import Counted, Gpu
from hangtop.diagnosis.rules.nodes import left_over
from tests.support.jobs import GIB, NOW, Sketch, alarms, first, gpu, kinds, port, source

LOAD = {"utilization": 99, "power": 600.0, "sm_clock": 1980}
SLOWED = {"utilization": 99, "power": 300.0, "sm_clock": 1100, "event_reasons": 0x48}


def watched(*gpus: Gpu, **fields: object) -> Sketch:
    """Rank n on GPU n of node1, and nothing known of their stacks."""
    job = Sketch(world=len(gpus), nodes=1)
    with_pids = tuple(
        replace(one, processes=gpu(one.index, pids=[1000 + one.index]).processes) if not one.processes else one
        for one in gpus
    )
    return job.node("node1", gpus=with_pids, **fields)


def test_lost_by_its_own_word() -> None:
    fault = GpuFault(1, "00000000:11:00.0", "Unable to determine the device handle for GPU1: 0000:11:00.0: GPU is lost")
    lost = replace(gpu(1), fault=fault)
    job = watched(gpu(0, [LOAD] * 3), lost)
    found = first(job.verdict())
    assert (found.kind, found.gpus, found.severity) == ("gpu_lost", ("node1:1",), "critical")
    assert "GPU is lost" in found.evidence[0].text


@pytest.mark.parametrize(
    ("code", "severity"),
    [(63, "info"), (92, "info"), (48, "critical"), (119, "critical"), (13, "warning"), (43, "info"), (45, "info")],
)
def test_xid_classes(code: int, severity: str) -> None:
    job = watched(gpu(0, [LOAD] * 3))
    job.says("kernel.xid", node="node1", ago=5, code=code, bus_id="0000:10:00")
    found = first(job.verdict())
    assert (found.kind, found.severity, found.gpus) == ("gpu_xid", severity, ("node1:0",))


@pytest.mark.parametrize(("code", "pid", "severity", "ranks"), [
    (45, 1000, "warning", (0,)), (45, 4711, "info", ()), (63, 1000, "info", ()),
], ids=["its process ended", "another process", "a message"])  # fmt: skip
def test_channels_removed_of_a_rank_that_ended_are_told(
    code: int, pid: int, severity: str, ranks: tuple[int, ...]
) -> None:
    job = Sketch()
    job.ranks().gone(ago=3.0)
    job.says("kernel.xid", node="node1", ago=4, code=code, bus_id="0000:10:00", pid=pid)
    verdict = job.verdict()
    found = first(verdict)
    assert (found.kind, found.severity, found.ranks, verdict.outcome) == ("gpu_xid", severity, ranks, "unknown")
    assert verdict.summary.startswith("Xid 45 on ") == (severity == "warning")


def test_throttled() -> None:
    job = watched(gpu(0, [LOAD] * 4), gpu(1, [SLOWED] * 4), gpu(2, [LOAD] * 4))
    verdict = job.verdict()
    found = first(verdict)
    assert (found.kind, found.gpus, found.ranks, verdict.outcome) == ("gpu_throttled", ("node1:1",), (1,), "slow")
    assert "thermal" in found.summary


@pytest.mark.parametrize(
    "row",
    [
        {**LOAD, "event_reasons": 0x4, "sm_clock": 1500},  # the software power cap under load
        {**SLOWED, "utilization": 0},  # idle clocks
        {**LOAD, "event_reasons": 0x40},  # as fast as its peers all the same
    ],
)
def test_not_throttled(row: dict[str, object]) -> None:
    job = watched(gpu(0, [LOAD] * 4), gpu(1, [row] * 4), gpu(2, [LOAD] * 4))
    assert "gpu_throttled" not in kinds(job.verdict())


def test_pcie_under_load_and_idle() -> None:
    narrow = {"pcie_width": 4}
    assert first(watched(gpu(0, [{**LOAD, **narrow}] * 3)).verdict()).kind == "gpu_pcie_degraded"
    assert alarms(watched(gpu(0, [{"pcie_gen": 1}] * 3)).verdict()) == []


def test_memory_errors() -> None:
    grows = watched(gpu(0, [{"ecc_uncorrected": 0}, {"ecc_uncorrected": 2}]))
    assert (first(grows.verdict()).kind, first(grows.verdict()).severity) == ("gpu_ecc", "critical")
    long_ago = replace(gpu(0, [{"ecc_uncorrected": 2}] * 2), ecc_first=0)
    assert first(watched(long_ago).verdict()).severity == "critical", "the samples before are not kept"
    for before in (2, None):
        old = watched(gpu(0, [{"ecc_uncorrected": before}, {"ecc_uncorrected": 2}]))
        assert first(old.verdict()).severity == "warning"
    pending = watched(gpu(0, [{"remap_pending": True, "recovery_action": "Reset"}]))
    assert set(kinds(pending.verdict())) == {"gpu_ecc"}
    fine = watched(gpu(0, [{"recovery_action": "None"}]))
    assert kinds(fine.verdict()) == []


def test_nvlink() -> None:
    links = {link: NvlinkCounters(0, link, True, 5, 0, 0, None, None) for link in range(2)}
    fine = replace(gpu(0), nvlinks=links, nvlinks_first=links)
    assert alarms(watched(fine).verdict()) == []
    bad = first(watched(replace(fine, nvlinks={**links, 0: links[0]._replace(replay_errors=10)})).verdict())
    assert (bad.kind, "link 0: replay_errors +5" in bad.summary) == ("nvlink_errors", True)


# --- ports -------------------------------------------------------------------------------------------------------


def fabric(**ports: object) -> Sketch:
    """Three nodes with a port each; those of ``ports`` are given."""
    job = Sketch(world=3, nodes=3)
    for name in ("node1", "node2", "node3"):
        given = ports.get(name, (port(),))
        assert isinstance(given, tuple)
        job.node(name, ports=given)
    return job


def test_a_port_that_is_down_everywhere_is_not_cabled() -> None:
    down = (port(), port("mlx5_1", states=["DOWN"], phys="Disabled"))
    assert alarms(fabric(node1=down, node2=down, node3=down).verdict()) == []


def test_flapping() -> None:
    flaps = port(states=["ACTIVE", "DOWN", "ACTIVE"], link_downed=1)
    found = first(fabric(node3=(flaps,)).verdict())
    assert (found.kind, found.ports) == ("ib_port_errors", ("node3:mlx5_0/1",))


@pytest.mark.parametrize("counter", ["symbol_error", "link_error_recovery", "packet_seq_err"])
def test_error_counters(counter: str) -> None:
    grown = replace(port(), counters={counter: 3}, first={counter: 0})
    found = first(fabric(node1=(grown,)).verdict())
    assert (found.kind, found.ports) == ("ib_port_errors", ("node1:mlx5_0/1",))


# --- network -----------------------------------------------------------------------------------------------------


def tcp(sent: int, again: int) -> Counted:
    """So many segments in a second."""
    none = {"OutSegs": 0, "RetransSegs": 0}
    return Counted({"OutSegs": sent, "RetransSegs": again}, none, NOW, 1.0, "tcp", none)


def test_tcp_retransmits() -> None:
    job = Sketch(nodes=2)
    job.node("node2", tcp=tcp(5000, 300))
    found = first(job.verdict())
    assert (found.kind, found.nodes) == ("packet_loss", ("node2",))
    job.node("node2", tcp=tcp(100, 6))
    assert alarms(job.verdict()) == [], "a few segments are no share"
    job.node("node2", tcp=tcp(3, 40))
    assert alarms(job.verdict()) == [], "a node that is cut off repeats what it cannot send"


# --- nodes -------------------------------------------------------------------------------------------------------


def test_a_node_that_was_rebooted_took_its_ranks_with_it() -> None:
    """Ranks 2 and 3 were started ten minutes ago, and their node was booted a minute ago."""
    job = Sketch().node("node2", host=HostSample(8, 64 * GIB, NOW - 60, {}, 1.0, 32 * GIB, None))
    job.ranks(2, 3).gone(20)
    for rank in (0, 1):
        job.ranks(rank).gone(15)
        job.says("gloo.closed", rank=rank, ago=30, peer="[10.0.0.2]:4711")
    verdict = job.verdict()
    found = first(verdict)
    assert (found.kind, found.nodes, found.ranks, found.severity) == ("node_rebooted", ("node2",), (2, 3), "critical")
    assert (verdict.outcome, found.certainty) == ("crashed", "likely")
    assert [other.cause for other in verdict.findings if other.kind == "nccl_remote_error"] == ["node_rebooted"]


def test_limited() -> None:
    job = Sketch(world=0, nodes=1)
    job.node("node1", link="limited", why="no Python there", sources={"ranks": source("ranks", "denied", "hidepid=2")})
    verdict = job.verdict()
    assert (verdict.outcome, {gap.why for gap in verdict.unknown}) == ("unknown", {"hidepid=2", "no Python there"})


# --- left over ---------------------------------------------------------------------------------------------------


def test_leftovers_of_an_earlier_run() -> None:
    job = Sketch()
    old = Sketch(world=1, nodes=1).job().ranks[0]
    process = old.process._replace(pid=77, run_id="yesterday", launcher="torchrun", adopted=True)
    job.others.append(replace(old, process=process))
    found = first(job.verdict())
    assert (found.kind, found.nodes) == ("zombie_process", ("node1",))
    assert "kill 77" in found.advice
    assert left_over(job.others[0], job.others) == "its launcher (torchrun) is gone"


def test_another_job_at_work_on_the_node_is_no_leftover() -> None:
    """Its launcher lives, or it was started by hand and is whole: nothing may advise to end it."""
    job = Sketch()
    own = Sketch(world=1, nodes=1).job().ranks[0].process._replace(pid=77, master_port=29600, launcher="torchrun")
    by_hand = own._replace(adopted=True, launcher="env")
    for process in (own, by_hand, by_hand._replace(local_world_size=1)):
        job.others[:] = [replace(Sketch(world=1, nodes=1).job().ranks[0], process=process)]
        assert alarms(job.verdict()) == []
        assert not any("kill" in finding.advice for finding in job.verdict().findings)
        assert not left_over(job.others[0], job.others)
    job.others[:] = [replace(job.others[0], process=by_hand._replace(local_world_size=2))]
    assert first(job.verdict()).kind == "zombie_process"


@pytest.mark.parametrize(
    ("ago", "late", "hung"), [(12.0, "", True), (6.0, "", False), (12.0, "ranks", False), (12.0, "kernel", True)]
)
def test_a_silent_nvidia_smi_is_the_driver_on_a_node_whose_other_sources_answer(
    ago: float, late: str, hung: bool
) -> None:
    states = {name: source(name, "late" if name == late else "ok") for name in ("ranks", "host", "kernel")}
    job = Sketch().node("node1", sources={**states, "gpus": source("gpus", "late", "silent", since=NOW - ago)})
    assert ("gpu_driver_hung" in kinds(job.verdict())) is hung
