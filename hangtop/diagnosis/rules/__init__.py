"""The rules: each a small function from the job (or its status, made of it once) to findings, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hangtop.diagnosis.environment.lint import RULES as ENVIRONMENT
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.rules import (
    absent,
    crash,
    disagree,
    gpus,
    inside,
    network,
    nodes,
    not_launched,
    nvlink,
    placement,
    recorder,
    slow,
    startup,
    store,
    stuck,
)
from hangtop.diagnosis.rules.event_rows import EVENT_ROWS
from hangtop.diagnosis.waits.job_status import JobStatus

Rule = Callable[[Job], Iterable[Finding]]
StatusRule = Callable[[JobStatus], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    nodes.node_unreachable,
    nodes.node_rebooted,
    nodes.node_limited,
    startup.no_rank_started,
    gpus.gpu_driver_hung,
    gpus.gpu_xid,
    gpus.gpu_memory_errors,
    gpus.cuda_hardware,
    nvlink.nvlink_errors,
    nvlink.fabric_down,
    nvlink.topology_differs,
    nodes.cpu_starved,
    gpus.gpu_throttled,
    gpus.gpu_pcie_degraded,
    network.port_down,
    network.port_errors,
    network.tcp_retransmits,
    placement.gpu_assignment_conflict,
    placement.zombie_process,
    nodes.storage_stalled,
    *EVENT_ROWS,
    network.socket_fallback,
    crash.remote_error,
    not_launched.gloo_timed_out,
    crash.worker_died,
    not_launched.watchdog_timeout,
    not_launched.differing_calls,
    not_launched.fingerprints,
    inside.probed,
    inside.traced,
    inside.checks,
    store.address_in_use,
    store.store_timeout,
    store.unresolved,
    startup.nccl_init_stuck,
    startup.started_anew,
    *ENVIRONMENT,
)
"""Rules that need the job alone."""

STATUS_RULES: tuple[StatusRule, ...] = (
    stuck.halted,
    stuck.stuck_in_code,
    stuck.waits,
    stuck.keeps_gil,
    stuck.proxy_lost_operation,
    disagree.mismatch,
    disagree.deadlock,
    disagree.stalled,
    absent.missing,
    absent.gone,
    absent.left_early,
    startup.init_hang,
    network.path_blocked,
    slow.straggler_rank,
    crash.first_to_fail,
    recorder.flight_recorder,
    not_launched.fewer_launched,
    absent.ras_away,
)
"""Rules that need to know where each rank stands and who waits for whom."""
