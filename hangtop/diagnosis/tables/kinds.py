"""What kinds of findings mean for the verdict: the word they stand for, how near the root they are, what they explain.

The kinds are those of ``docs/findings.md``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Word = Literal["hung", "slow", "crashed"]

HUNG = frozenset(
    {
        "rank_stuck_in_data", "rank_stuck_in_checkpoint", "rank_stuck_on_lock", "rank_stuck_in_code", "rank_stopped",
        "rank_uninterruptible", "collective_mismatch", "collective_size_mismatch", "p2p_deadlock", "rank_left_early",
        "rank_missing", "collective_stalled", "unused_parameters", "gil_hang", "init_hang",
    }
)  # fmt: skip
CRASHED = frozenset(
    {
        "rank_crashed", "rank_killed", "gpu_out_of_memory", "watchdog_timeout", "address_in_use", "store_timeout",
        "child_failed_no_detail", "host_out_of_memory", "nccl_init_failed",
        "nccl_no_interface", "nccl_connect_failed", "nccl_remote_error",
        "nccl_version_mismatch", "ib_retry_exceeded", "duplicate_gpu", "invalid_device", "shm_too_small",
        "open_files_limit", "memlock_limit",
    }
)  # fmt: skip
MEASURED = frozenset({"path_blocked", "packet_loss", "slow_node", "slow_link", "silent_corruption"})
"""What a probe finds between nodes: it may hang a job, but a rank that is seen to hold the others up comes first."""
BROKEN = frozenset(
    {
        "gpu_lost", "gpu_driver_hung", "gpu_xid", "gpu_ecc", "gpu_row_remap", "gpu_needs_reset", "nvlink_errors",
        "ib_port_down", "node_unreachable", "storage_stalled", "kernel_trouble",
    }
) | MEASURED  # fmt: skip
"""Causes that hang a job, crash it or slow it: the word depends on what the job does."""
SLOW = frozenset(
    {
        "straggler_rank", "gpu_throttled", "gpu_pcie_degraded", "data_bound", "network_socket_fallback",
        "communication_bound", "ib_link_flapped", "ib_symbol_errors", "ib_receive_errors", "ib_transmit_discards",
        "ib_buffer_overrun", "roce_retransmits", "tcp_retransmits", "mtu_mismatch",
        "bandwidth_low",
    }
)  # fmt: skip

NEARNESS: tuple[frozenset[str], ...] = (
    BROKEN - MEASURED,
    frozenset(
        {
            "rank_killed",
            "rank_crashed",
            "gpu_out_of_memory",
            "host_out_of_memory",
            "shm_too_small",
            "open_files_limit",
            "address_in_use",
            "duplicate_gpu",
        }
    ),
    HUNG - {"collective_stalled", "init_hang", "rank_missing"},
    CRASHED - {"watchdog_timeout", "store_timeout", "nccl_remote_error", "nccl_connect_failed"},
    MEASURED,
    frozenset({"rank_missing", "init_hang", "collective_stalled"}),
    frozenset({"watchdog_timeout", "store_timeout", "nccl_connect_failed"}),
    SLOW,
)
"""Nearer to the root first, among findings that are equally severe and explain nothing of each other."""

Where = Literal["any", "rank", "node", "gpu", "port"]


class Explains(NamedTuple):
    """Findings of these kinds are explained by the cause, if both speak of the same thing (``any``: of this job)."""

    cause: frozenset[str]
    effects: frozenset[str]
    where: Where


def _set(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


STUCK = _set("rank_stuck_in_data", "rank_stuck_in_checkpoint", "rank_stuck_on_lock", "rank_stuck_in_code")
GONE = _set("rank_crashed", "rank_killed", "rank_missing", "rank_left_early")
WAITS_END = _set("watchdog_timeout", "store_timeout", "collective_stalled", "nccl_remote_error", "nccl_connect_failed")
"""What becomes of those who wait, whatever it is that they wait for."""

EXPLANATIONS: tuple[Explains, ...] = (
    Explains(
        _set("gpu_lost"),
        _set("gpu_xid", "gpu_driver_hung", "gpu_ecc", "gpu_row_remap", "gpu_needs_reset", "gpu_throttled"),
        "node",
    ),
    Explains(
        _set("gpu_lost", "gpu_driver_hung", "gpu_xid", "gpu_ecc", "kernel_trouble"),
        STUCK | GONE | _set("rank_uninterruptible", "gil_hang"),
        "rank",
    ),
    Explains(_set("gpu_lost", "gpu_driver_hung", "gpu_xid", "gpu_ecc"), WAITS_END, "any"),
    Explains(_set("gpu_ecc", "gpu_xid"), _set("gpu_row_remap", "gpu_needs_reset"), "gpu"),
    Explains(
        _set("storage_stalled"),
        _set("rank_stuck_in_data", "rank_stuck_in_checkpoint", "rank_uninterruptible", "kernel_trouble"),
        "node",
    ),
    Explains(
        _set("node_unreachable"), WAITS_END | _set("rank_missing", "rank_left_early", "init_hang", "waiting"), "any"
    ),
    Explains(
        _set(
            "rank_crashed",
            "rank_killed",
            "gpu_out_of_memory",
            "host_out_of_memory",
            "shm_too_small",
            "open_files_limit",
            "duplicate_gpu",
            "invalid_device",
        ),
        WAITS_END | _set("rank_missing", "rank_left_early", "child_failed_no_detail", "init_hang", "gil_hang"),
        "any",
    ),
    Explains(
        _set("gpu_out_of_memory", "host_out_of_memory", "shm_too_small", "open_files_limit", "duplicate_gpu"),
        _set("rank_crashed"),
        "any",
    ),
    Explains(STUCK | _set("rank_stopped", "rank_uninterruptible", "gil_hang", "rank_missing"), WAITS_END, "any"),
    Explains(
        _set("rank_missing") | STUCK | _set("rank_stopped", "rank_uninterruptible"), _set("init_hang", "waiting"), "any"
    ),
    Explains(_set("gil_hang"), STUCK, "rank"),
    # that a rank has not joined is what the recorder says of one that is held elsewhere: its stack says where
    Explains(
        STUCK | _set("rank_stopped", "rank_uninterruptible", "rank_missing", "rank_left_early"),
        _set("collective_mismatch"),
        "rank",
    ),
    Explains(
        _set("collective_mismatch", "collective_size_mismatch", "p2p_deadlock", "rank_left_early", "unused_parameters"),
        WAITS_END | _set("rank_crashed", "child_failed_no_detail"),
        "any",
    ),
    Explains(_set("unused_parameters"), _set("collective_mismatch"), "any"),
    Explains(
        _set("address_in_use", "nccl_no_interface", "nccl_version_mismatch", "env_invalid"),
        WAITS_END | _set("init_hang", "rank_crashed", "child_failed_no_detail", "nccl_init_failed"),
        "any",
    ),
    Explains(_set("ib_port_down"), _set("ib_link_flapped", "ib_symbol_errors", "ib_transmit_discards"), "port"),
    Explains(_set("ib_link_flapped"), _set("ib_symbol_errors", "ib_receive_errors", "ib_transmit_discards"), "port"),
    Explains(_set("ib_port_down", "ib_link_flapped"), WAITS_END | _set("ib_retry_exceeded", "roce_retransmits"), "any"),
    Explains(_set("ib_retry_exceeded"), WAITS_END | _set("rank_crashed"), "any"),
    Explains(
        _set("memlock_limit", "open_files_limit", "nccl_init_failed"),
        WAITS_END | _set("rank_crashed", "init_hang"),
        "any",
    ),
    Explains(_set("memlock_limit", "open_files_limit"), _set("nccl_init_failed"), "any"),
    Explains(_set("zombie_process"), _set("gpu_memory_imbalance"), "gpu"),
    Explains(_set("zombie_process"), _set("gpu_out_of_memory"), "gpu"),
    Explains(_set("gpu_assignment_conflict"), _set("gpu_memory_imbalance"), "gpu"),
    Explains(_set("duplicate_gpu"), _set("gpu_assignment_conflict"), "any"),
    Explains(_set("gpu_throttled", "gpu_pcie_degraded"), _set("straggler_rank"), "rank"),
    Explains(_set("network_socket_fallback", "mtu_mismatch"), _set("tcp_retransmits", "bandwidth_low"), "any"),
    Explains(
        _set("path_blocked", "packet_loss", "slow_node", "slow_link"),
        WAITS_END | _set("init_hang", "tcp_retransmits"),
        "any",
    ),
    Explains(_set("ib_port_down"), _set("path_blocked", "slow_node"), "node"),
    Explains(
        _set("watchdog_timeout"),
        _set("nccl_remote_error", "rank_crashed", "child_failed_no_detail", "store_timeout"),
        "any",
    ),
    Explains(_set("init_hang"), _set("store_timeout"), "any"),
    Explains(_set("child_failed_no_detail", "store_timeout", "nccl_connect_failed"), _set("nccl_remote_error"), "any"),
)
"""Which finding makes which other one a consequence. An effect of several causes takes the one that is nearest."""
