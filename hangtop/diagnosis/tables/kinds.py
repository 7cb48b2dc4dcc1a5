"""The kinds of findings, one row each: the verdict that a kind stands for, how near the root it is, what it explains.

The kinds are those of ``docs/findings.md``; a test holds the two together. A finding of a kind that has no row here is
a fault of the rule that made it, and raises: it must never pass for "nothing is wrong".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Word = Literal["hung", "crashed", "at_risk", "waiting", "slow", "none"]
"""What a kind makes of the verdict. ``at_risk``: something is broken under a job that moves; ``waiting``: ranks wait
for one, and whether that is a fault is not known; ``none``: changes none."""
Where = Literal["any", "rank", "node", "gpu", "port"]


class Effects(NamedTuple):
    """Findings of these kinds are consequences, if they speak of the same thing (``any``: of the same job)."""

    kinds: frozenset[str]
    where: Where


class Kind(NamedTuple):
    """One kind of finding."""

    name: str
    word: Word
    nearness: int
    """Distance from the root of a fault: nearer ones come first among findings that are equally severe and explain
    nothing of each other."""
    explains: tuple[Effects, ...] = ()


class UnknownKind(ValueError):
    """A rule named a kind that has no row."""


def _set(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


STUCK = _set("rank_stuck_in_data", "rank_stuck_in_checkpoint", "rank_stuck_on_lock", "rank_stuck_in_code")
GONE = _set("rank_crashed", "rank_killed", "rank_missing", "rank_left_early")
WAITS_END = _set(
    "watchdog_timeout", "store_timeout", "collective_stalled", "job_stalled", "nccl_remote_error", "nccl_connect_failed"
)
"""What becomes of those who wait, whatever it is that they wait for."""
WAITS_BEHIND = WAITS_END | _set("init_hang", "waiting")

HOLDS_UP = (Effects(WAITS_BEHIND, "any"), Effects(_set("collective_mismatch"), "rank"))
DISAGREES = (Effects(WAITS_END | _set("child_failed_no_detail", "rank_crashed"), "any"),)
RANK_ENDS = (
    Effects(
        WAITS_END | _set("child_failed_no_detail", "gil_hang", "init_hang", "rank_left_early", "rank_missing"), "any"
    ),
)
RUNS_OUT = (
    Effects(
        WAITS_END
        | _set("child_failed_no_detail", "gil_hang", "init_hang", "rank_crashed", "rank_left_early", "rank_missing"),
        "any",
    ),
)
NO_START = (
    Effects(WAITS_END | _set("child_failed_no_detail", "init_hang", "nccl_init_failed", "rank_crashed"), "any"),
)
STORE_TIMEOUT_EFFECTS = (Effects(_set("nccl_remote_error"), "any"),)
GPU_XID_EFFECTS = (
    Effects(STUCK | GONE | _set("gil_hang", "rank_uninterruptible"), "rank"),
    Effects(WAITS_END, "any"),
    Effects(_set("gpu_needs_reset", "gpu_row_remap"), "gpu"),
)
NO_PATH = (Effects(WAITS_END | _set("init_hang", "tcp_retransmits"), "any"),)
GPU_THROTTLED_EFFECTS = (Effects(_set("straggler_rank"), "rank"),)
NETWORK_SOCKET_FALLBACK_EFFECTS = (Effects(_set("bandwidth_low", "tcp_retransmits"), "any"),)

ROWS: tuple[Kind, ...] = (
    # ranks wait and will not stop waiting
    Kind("rank_stuck_in_data", "hung", 2, HOLDS_UP),
    Kind("rank_stuck_in_checkpoint", "hung", 2, HOLDS_UP),
    Kind("rank_stuck_on_lock", "hung", 2, HOLDS_UP),
    Kind("rank_stuck_in_code", "hung", 2, HOLDS_UP),
    Kind("rank_stopped", "hung", 2, HOLDS_UP),
    Kind("rank_uninterruptible", "hung", 2, HOLDS_UP),
    Kind("collective_mismatch", "hung", 2, DISAGREES),
    Kind("collective_size_mismatch", "hung", 2, DISAGREES),
    Kind("p2p_deadlock", "hung", 2, DISAGREES),
    Kind("rank_left_early", "hung", 2, (Effects(_set("collective_mismatch"), "rank"), Effects(WAITS_END |
         _set("child_failed_no_detail", "rank_crashed"), "any"))),
    Kind("rank_stuck_at_exit", "hung", 3, (Effects(WAITS_END, "any"),)),
    Kind("rank_missing", "hung", 5, HOLDS_UP),
    Kind("collective_stalled", "hung", 5),
    Kind("job_stalled", "hung", 6),
    Kind("unused_parameters", "hung", 2, (Effects(WAITS_END | _set("child_failed_no_detail",
         "collective_mismatch", "rank_crashed"), "any"),)),
    Kind("gil_hang", "hung", 2, (Effects(WAITS_END, "any"), Effects(STUCK, "rank"))),
    Kind("init_hang", "hung", 5, (Effects(_set("store_timeout"), "any"),)),
    # ranks failed
    Kind("rank_crashed", "crashed", 1, RANK_ENDS),
    Kind("rank_killed", "crashed", 1, RANK_ENDS),
    Kind("node_rebooted", "crashed", 0, (Effects(WAITS_END | _set("child_failed_no_detail", "init_hang", "rank_killed",
         "rank_left_early", "rank_missing", "waiting"), "any"),)),
    Kind("gpu_out_of_memory", "crashed", 1, RUNS_OUT),
    Kind("host_out_of_memory", "crashed", 1, RUNS_OUT),
    Kind("job_restarts", "crashed", 2, (Effects(WAITS_END | _set("child_failed_no_detail", "init_hang",
         "rank_left_early", "rank_missing"), "any"),)),
    Kind("watchdog_timeout", "crashed", 6, (Effects(_set("child_failed_no_detail", "nccl_remote_error",
         "rank_crashed", "store_timeout"), "any"),)),
    Kind("address_in_use", "crashed", 1, NO_START),
    Kind("store_timeout", "crashed", 6, STORE_TIMEOUT_EFFECTS),
    Kind("child_failed_no_detail", "crashed", 3, STORE_TIMEOUT_EFFECTS),
    Kind("nccl_init_failed", "crashed", 3, (Effects(WAITS_END | _set("init_hang", "rank_crashed"), "any"),)),
    Kind("nccl_no_interface", "crashed", 3, NO_START),
    Kind("nccl_connect_failed", "crashed", 6, STORE_TIMEOUT_EFFECTS),
    Kind("nccl_remote_error", "crashed", 8),
    Kind("nccl_version_mismatch", "crashed", 3, NO_START),
    Kind("ib_retry_exceeded", "crashed", 3, (Effects(WAITS_END | _set("rank_crashed"), "any"),)),
    Kind("duplicate_gpu", "crashed", 1, (Effects(WAITS_END | _set("child_failed_no_detail", "gil_hang",
         "gpu_assignment_conflict", "init_hang", "rank_crashed", "rank_left_early", "rank_missing"), "any"),)),
    Kind("invalid_device", "crashed", 3, RANK_ENDS),
    Kind("shm_too_small", "crashed", 1, RUNS_OUT),
    Kind("open_files_limit", "crashed", 1, (Effects(WAITS_END | _set("child_failed_no_detail", "gil_hang",
         "init_hang", "nccl_init_failed", "rank_crashed", "rank_left_early", "rank_missing"), "any"),)),
    Kind("process_limit", "crashed", 1, RUNS_OUT),
    Kind("launch_failed", "crashed", 1, RUNS_OUT),
    Kind("memlock_limit", "crashed", 3, (Effects(WAITS_END | _set("init_hang", "nccl_init_failed",
         "rank_crashed"), "any"),)),
    # broken hardware or network: it hangs a job, ends it, slows it, or has done nothing of that yet
    Kind("gpu_lost", "at_risk", 0, (Effects(_set("gpu_driver_hung", "gpu_ecc", "gpu_needs_reset",
         "gpu_row_remap", "gpu_throttled", "gpu_xid"), "node"), Effects(STUCK | GONE | _set("gil_hang",
         "rank_uninterruptible"), "rank"), Effects(WAITS_END, "any"))),
    Kind("gpu_driver_hung", "at_risk", 0, (Effects(STUCK | GONE | _set("gil_hang", "rank_uninterruptible"),
         "rank"), Effects(WAITS_END, "any"))),
    Kind("gpu_xid", "at_risk", 0, GPU_XID_EFFECTS),
    Kind("gpu_ecc", "at_risk", 0, GPU_XID_EFFECTS),
    Kind("gpu_row_remap", "at_risk", 0),
    Kind("gpu_needs_reset", "at_risk", 0),
    Kind("gpu_test_failed", "at_risk", 0),
    Kind("nvlink_errors", "at_risk", 0),
    Kind("nvlink_fabric_down", "at_risk", 0, (Effects(WAITS_END | _set("init_hang", "nccl_init_failed"), "any"),
         Effects(_set("rank_crashed"), "node"))),
    Kind("ib_port_down", "at_risk", 0, (Effects(_set("ib_link_flapped", "ib_symbol_errors",
         "ib_transmit_discards"), "port"), Effects(WAITS_END | _set("ib_retry_exceeded", "roce_retransmits"),
         "any"), Effects(_set("path_blocked", "slow_node"), "node"))),
    Kind("node_unreachable", "at_risk", 0, (Effects(WAITS_END | _set("init_hang", "rank_left_early",
         "rank_missing", "waiting", "child_failed_no_detail"), "any"),)),
    Kind("storage_stalled", "at_risk", 0, (Effects(_set("kernel_trouble", "rank_stuck_in_checkpoint",
         "rank_stuck_in_data", "rank_uninterruptible"), "node"),)),
    Kind("kernel_trouble", "at_risk", 0, (Effects(STUCK | GONE | _set("gil_hang", "rank_uninterruptible"), "rank"),)),
    Kind("path_blocked", "at_risk", 4, NO_PATH),
    Kind("packet_loss", "slow", 4, NO_PATH),
    Kind("slow_node", "slow", 4, NO_PATH),
    Kind("slow_link", "slow", 4, NO_PATH),
    Kind("silent_corruption", "at_risk", 4),
    # what a check inside the job found
    Kind("replicas_differ", "at_risk", 4),
    Kind("placement_wrong", "at_risk", 4),
    Kind("mesh_wrong", "at_risk", 4),
    # it moves, and something holds it back
    Kind("straggler_rank", "slow", 7, (Effects(_set("waiting"), "rank"),)),
    Kind("cpu_starved", "slow", 7, (Effects(_set("straggler_rank", "data_bound", "waiting"), "rank"),)),
    Kind("gpu_throttled", "slow", 7, GPU_THROTTLED_EFFECTS),
    Kind("gpu_pcie_degraded", "slow", 7, GPU_THROTTLED_EFFECTS),
    Kind("data_bound", "slow", 7),
    Kind("network_socket_fallback", "slow", 7, NETWORK_SOCKET_FALLBACK_EFFECTS),
    Kind("communication_bound", "slow", 7),
    Kind("ib_link_flapped", "slow", 7, (Effects(_set("ib_receive_errors", "ib_symbol_errors",
         "ib_transmit_discards"), "port"), Effects(WAITS_END | _set("ib_retry_exceeded", "roce_retransmits"),
         "any"))),
    Kind("ib_symbol_errors", "slow", 7),
    Kind("ib_receive_errors", "slow", 7),
    Kind("ib_transmit_discards", "slow", 7),
    Kind("ib_buffer_overrun", "slow", 7),
    Kind("roce_retransmits", "slow", 7),
    Kind("tcp_retransmits", "slow", 7),
    Kind("mtu_mismatch", "slow", 7, NETWORK_SOCKET_FALLBACK_EFFECTS),
    Kind("bandwidth_low", "slow", 7),
    # worth knowing; changes no verdict
    Kind("waiting", "waiting", 7),
    Kind("job_queued", "none", 7),
    Kind("check_incomplete", "none", 8),
    Kind("env_mismatch", "none", 8),
    Kind("env_invalid", "none", 8, NO_START),
    Kind("env_unknown", "none", 8),
    Kind("env_deprecated", "none", 8),
    Kind("env_debug_left_on", "none", 8),
    Kind("env_log_file_clobbered", "none", 8),
    Kind("nccl_known_bad", "none", 8),
    Kind("gpu_assignment_conflict", "none", 8, (Effects(_set("gpu_memory_imbalance"), "gpu"),)),
    Kind("gpu_memory_imbalance", "none", 8),
    Kind("zombie_process", "none", 8, (Effects(_set("gpu_memory_imbalance", "gpu_out_of_memory"), "gpu"),)),
    Kind("port_taken", "none", 8),
    Kind("loopback_blocked", "none", 8),
    Kind("container_address", "none", 8),
    Kind("shm_small", "none", 8),
    Kind("open_files_low", "none", 8),
    Kind("memlock_low", "none", 8),
    Kind("clock_skew", "none", 8),
    Kind("disk_full", "none", 8),
    Kind("ptrace_denied", "none", 8),
    Kind("node_limited", "none", 8),
    Kind("node_twice", "none", 8),
    Kind("probe_absent", "none", 8),
    Kind("asymmetric_route", "none", 8),
    Kind("name_mismatch", "none", 8),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {row.name: row for row in ROWS}


def kind_row(name: str) -> Kind:
    """The row of a kind. Raises :class:`UnknownKind` for a name without one."""
    row = KINDS.get(name)
    if row is None:
        raise UnknownKind(f"no kind of finding is called {name!r}: add its row to diagnosis/tables/kinds.py")
    return row


def word_of(name: str) -> Word:
    """The verdict that a kind stands for."""
    return kind_row(name).word
