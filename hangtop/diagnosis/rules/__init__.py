"""The rules: each a small function from the job (or the case made of it) to findings, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hangtop.diagnosis.case import Case
from hangtop.diagnosis.environment.lint import RULES as ENVIRONMENT
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.rules import (
    absent,
    collectives,
    crash,
    cuda,
    ddp,
    disagree,
    fabric,
    gil,
    gloo,
    gpu_faults,
    gpu_speed,
    halted,
    kernel,
    memory,
    nccl_log,
    network,
    nodes,
    placement,
    probed,
    rendezvous,
    slow,
    starting,
    stuck,
    watchdog,
)

Rule = Callable[[Job], Iterable[Finding]]
CaseRule = Callable[[Case], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    nodes.node_unreachable,
    nodes.node_limited,
    nodes.clock_skew,
    gpu_faults.gpu_lost,
    gpu_faults.gpu_driver_hung,
    gpu_faults.gpu_xid,
    gpu_faults.gpu_ecc,
    gpu_faults.gpu_row_remap,
    gpu_faults.gpu_needs_reset,
    gpu_faults.nvlink_errors,
    gpu_faults.nvswitch,
    cuda.hardware,
    gpu_speed.gpu_throttled,
    gpu_speed.gpu_pcie_degraded,
    fabric.port_down,
    fabric.port_errors,
    fabric.roce_retransmits,
    network.tcp_retransmits,
    network.mtu_mismatch,
    placement.gpu_assignment_conflict,
    placement.gpu_memory_imbalance,
    placement.zombie_process,
    kernel.storage_stalled,
    kernel.kernel_trouble,
    memory.gpu_out_of_memory,
    memory.host_out_of_memory,
    memory.shm_too_small,
    memory.worker_died,
    nccl_log.warnings,
    nccl_log.mismatched,
    nccl_log.connect_failed,
    nccl_log.duplicate_gpu,
    nccl_log.ib_retry_exceeded,
    nccl_log.remote_error,
    nccl_log.socket_fallback,
    watchdog.watchdog_timeout,
    watchdog.fingerprints,
    watchdog.did_not_join,
    watchdog.left_early,
    gloo.timed_out,
    gloo.differing_calls,
    gloo.sizes,
    probed.probed,
    rendezvous.address_in_use,
    rendezvous.store_timeout,
    rendezvous.store_lost,
    rendezvous.unresolved,
    rendezvous.nccl_init_stuck,
    ddp.unused_parameters,
    *ENVIRONMENT,
)
"""Rules that need the job alone."""

CASE_RULES: tuple[CaseRule, ...] = (
    halted.stopped,
    halted.uninterruptible,
    stuck.stuck_in_code,
    stuck.waits,
    gil.gil_hang,
    disagree.mismatch,
    disagree.deadlock,
    disagree.stalled,
    absent.missing,
    absent.ended,
    absent.leaving,
    starting.init_hang,
    slow.straggler_rank,
    slow.data_bound,
    crash.crashed,
    crash.killed,
    crash.left_no_detail,
    collectives.flight_recorder,
    collectives.ras_behind,
    collectives.ras_away,
    collectives.nccl_log_behind,
)
"""Rules that need to know where each rank stands and who waits for whom."""
