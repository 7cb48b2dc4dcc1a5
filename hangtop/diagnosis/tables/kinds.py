"""The kinds of findings, one row each: the verdict that a kind stands for, how near the root it is, what it explains.

The kinds are those of ``docs/findings.md``; a test holds the two together. A finding of a kind without a row raises an
exception: it must never pass for "nothing is wrong".
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Literal, NamedTuple

Word = Literal["hung", "crashed", "at_risk", "waiting", "slow", "none"]
"""The verdict that a kind causes. ``at_risk``: something is broken under a job that moves; ``waiting``: ranks wait for
one, and whether that is a fault is not known; ``none``: no verdict of its own."""
Where = Literal["any", "rank", "node", "gpu", "port"]


Effects = Mapping[Where, Set[str]]
"""Kinds that are consequences if they are about the same rank, node, GPU or port (``any``: the same job)."""


class Kind(NamedTuple):
    """One kind of finding."""

    name: str
    word: Word
    nearness: int
    """Distance from the root of a fault: nearer ones come first among findings that are equally severe and do not
    explain each other."""
    meaning: str
    """What it reports, for ``docs/findings.md``, whose tables are made from these rows."""
    explains: Mapping[Where, Set[str]] = {}


STUCK = {"rank_stuck_in_data", "rank_stuck_in_checkpoint", "rank_stuck_on_lock", "rank_stuck_in_code"}
GONE = {"rank_crashed", "rank_killed", "rank_missing", "rank_left_early"}
WAITS_END = frozenset({
    "watchdog_timeout", "store_timeout", "collective_stalled", "job_stalled", "nccl_remote_error", "nccl_connect_failed"
})  # fmt: skip
"""What happens to ranks that wait, whatever they wait for."""
ENDS = {"child_failed_no_detail", "init_hang", "rank_left_early", "rank_missing"}
"""Findings about ranks that ended or never came, without a reason."""

HOLDS_UP: Effects = {"any": WAITS_END | {"init_hang", "waiting"}, "rank": {"collective_mismatch"}}
DISAGREES: Effects = {"any": WAITS_END | {"child_failed_no_detail", "rank_crashed"}}
RANK_ENDS: Effects = {"any": WAITS_END | ENDS | {"waiting"}}
NO_START: Effects = {"any": WAITS_END | ENDS | {"rank_crashed"}}
LOST_PEER: Effects = {"any": {"nccl_remote_error"}}
BROKEN_GPU: Effects = {
    "any": WAITS_END | {"init_hang"}, "rank": STUCK | GONE | {"rank_uninterruptible", "waiting"}
}  # fmt: skip
NO_PATH: Effects = {"any": WAITS_END | {"init_hang"}}
SLOWS_RANK: Effects = {"rank": {"straggler_rank", "waiting"}}

ROWS: tuple[Kind, ...] = (
    # ranks wait and will not stop waiting
    Kind("rank_stuck_in_data", "hung", 2, "the others wait for this rank, which loads data or reads a file", HOLDS_UP),
    Kind("rank_stuck_in_checkpoint", "hung", 2, "the others wait for this rank, which saves or restores", HOLDS_UP),
    Kind("rank_stuck_on_lock", "hung", 2, "the others wait for this rank, which wants a lock, or the GIL", HOLDS_UP),
    Kind("rank_stuck_in_code", "hung", 2, "the others wait for this rank, which is elsewhere in its code", HOLDS_UP),
    Kind("rank_stopped", "hung", 2, "the process is stopped (state T or t), or frozen by its control group", HOLDS_UP),
    Kind("rank_uninterruptible", "hung", 2, "the process is in state D over several samples", HOLDS_UP),
    Kind("collective_mismatch", "hung", 2, "ranks of one group wait in different operations or numbers", DISAGREES),
    Kind("collective_size_mismatch", "hung", 2, "ranks called one operation with different sizes or types", DISAGREES),
    Kind("p2p_deadlock", "hung", 2, "ranks wait to receive from, or to send to, one another in a cycle", DISAGREES),
    Kind("rank_left_early", "hung", 2, "a rank finished while the others still wait for it in a collective",
         {**DISAGREES, "rank": {"collective_mismatch"}}),
    Kind("rank_missing", "hung", 5, "fewer ranks are alive than the job's size says", HOLDS_UP),
    Kind("collective_stalled", "hung", 5, "all ranks are in one operation, which does not end: network or GPU"),
    Kind("job_stalled", "hung", 6, "no rank shows any motion for longer than its patience, and nothing shows why"),
    Kind("init_hang", "hung", 5, "ranks wait to start for others that have not come", {"any": {"store_timeout"}}),
    # ranks failed
    Kind("rank_crashed", "crashed", 1, "the earliest exception, signal or abort that is no consequence", RANK_ENDS),
    Kind("rank_killed", "crashed", 1, "a rank was killed from outside, or by the kernel out of memory", RANK_ENDS),
    Kind("node_rebooted", "crashed", 0, "a node rebooted under ranks that ran there",
         {"any": WAITS_END | ENDS | {"rank_killed", "waiting"}}),
    Kind("gpu_out_of_memory", "crashed", 1, "CUDA ran out of memory", NO_START),
    Kind("unused_parameters", "crashed", 1, "DDP raised: parameters took no part in the loss, and got no gradient",
         {"any": WAITS_END | {"child_failed_no_detail", "rank_crashed", "collective_mismatch"}}),
    Kind("watchdog_timeout", "crashed", 6, "a time-out ended a wait (NCCL's watchdog, gloo, an engine); HUNG in files",
         {"any": {"child_failed_no_detail", "nccl_remote_error", "rank_crashed", "store_timeout"}}),
    Kind("address_in_use", "crashed", 1, "the rendezvous port was taken", NO_START),
    Kind("store_timeout", "crashed", 6, "a wait at the store or the rendezvous ended by time-out", LOST_PEER),
    Kind("child_failed_no_detail", "crashed", 3, "of the first failure only an exit code is known", LOST_PEER),
    Kind("nccl_init_failed", "crashed", 3, "NCCL could not start: interface, versions, a GPU twice", NO_START),
    Kind("nccl_connect_failed", "crashed", 6, "NCCL or gloo could not connect to a peer", LOST_PEER),
    Kind("nccl_remote_error", "crashed", 8, "a rank lost its peer: a consequence"),
    Kind("ib_retry_exceeded", "crashed", 3, "an InfiniBand send was repeated without an answer",
         {"any": WAITS_END | {"rank_crashed"}}),
    Kind("ib_transfer_failed", "crashed", 3, "an adapter ended an InfiniBand transfer with another error",
         {"any": WAITS_END | {"rank_crashed"}}),
    Kind("limit_reached", "crashed", 1, "memory, /dev/shm, file descriptors, processes or memlock ran out", NO_START),
    # broken hardware or network: it hangs a job, ends it, slows it, or has done nothing of that yet
    Kind("gpu_lost", "at_risk", 0, "a GPU fell off the bus, or the driver shows none",
         {**BROKEN_GPU, "node": {"gpu_driver_hung", "gpu_ecc", "gpu_throttled", "gpu_xid"}}),
    Kind("gpu_driver_hung", "at_risk", 0, "nvidia-smi, or a GPU its driver waits for, does not answer", BROKEN_GPU),
    Kind("gpu_xid", "at_risk", 0, "the driver reported an Xid, or AMD's an error of a kernel", BROKEN_GPU),
    Kind("gpu_ecc", "at_risk", 0, "memory errors not corrected, rows to remap, or a reset is wanted", BROKEN_GPU),
    Kind("nvlink_errors", "at_risk", 0, "an NVLink counts errors, is down while others are up, or a switch failed"),
    Kind("nvlink_fabric_down", "at_risk", 0, "GPUs are not in their NVLink fabric, or Fabric Manager or IMEX is down",
         {"any": WAITS_END | {"init_hang", "nccl_init_failed"}, "node": {"rank_crashed"}, "rank": {"rank_crashed"}}),
    Kind("topology_differs", "at_risk", 1, "a node's GPUs or NICs are connected differently from most nodes like it",
         {"node": {"bandwidth_low"}}),
    Kind("ib_port_down", "at_risk", 0, "a port is down while its peers are up",
         {"any": WAITS_END | {"init_hang", "ib_retry_exceeded"}, "node": {"path_blocked", "bandwidth_low"},
          "port": {"ib_port_errors"}}),
    Kind("node_unreachable", "at_risk", 0, "a node does not answer", RANK_ENDS),
    Kind("storage_stalled", "at_risk", 0, "a file server does not answer, or a disk or file system reports errors",
         {"node": {"kernel_trouble", "rank_stuck_in_checkpoint", "rank_stuck_in_data", "rank_uninterruptible"}}),
    Kind("kernel_trouble", "at_risk", 0, "a hung task, a lockup, an adapter or a part of the machine that failed",
         {"rank": STUCK | GONE | {"rank_uninterruptible"}}),
    Kind("path_blocked", "at_risk", 4, "what is sent between two nodes is not acknowledged", NO_PATH),
    Kind("bandwidth_low", "slow", 4, "little gets through to and from a node, or between two, by a probe", NO_PATH),
    Kind("packet_loss", "slow", 4, "TCP has to send a share of its segments again", NO_PATH),
    Kind("silent_corruption", "at_risk", 4, "a collective gave wrong elements"),
    # what a check inside the job found
    Kind("replicas_differ", "at_risk", 4, "tensors or random generators that must be equal on replicas are not"),
    Kind("placement_wrong", "at_risk", 4, "the placement, mesh, shape or gradient of a parameter is wrong"),
    # it moves, and something holds it back
    Kind("straggler_rank", "slow", 7, "the job moves, and the others wait for this rank far more often than chance",
         {"rank": {"waiting"}}),
    Kind("cpu_starved", "slow", 7, "a rank is ready to run and has no CPU, while the others have theirs", SLOWS_RANK),
    Kind("gpu_throttled", "slow", 7, "a GPU's clock is below its peers' under load, and not by its cap", SLOWS_RANK),
    Kind("gpu_pcie_degraded", "slow", 7, "a GPU's PCIe link is below its maximum under load", SLOWS_RANK),
    Kind("ib_port_errors", "slow", 7, "a link went down and came back, or a port counts errors"),
    Kind("mtu_mismatch", "slow", 7, "interfaces of one network disagree, or the path is narrower than they are",
         {"any": {"bandwidth_low", "packet_loss"}}),
    # worth knowing; changes no verdict
    Kind("waiting", "waiting", 7, "ranks wait for one, and whether that is a fault is not known"),
    Kind("check_incomplete", "none", 8, "ranks did not come to a check inside the job in time"),
    Kind("env_mismatch", "none", 8, "ranks that must agree on a setting or a version do not"),
    Kind("env_invalid", "none", 8, "a setting has a value that is not accepted, or names nothing here",
         {"any": WAITS_END | {"child_failed_no_detail", "init_hang", "nccl_init_failed", "rank_crashed"}}),
    Kind("env_not_wanted", "none", 8, "a setting that NCCL and torch do not read, or one for debugging that slows it"),
    Kind("nccl_known_bad", "none", 8, "a release of NCCL with a fault that hangs or ends jobs"),
    Kind("zombie_process", "none", 8, "processes of another run hold GPUs of the job",
         {"gpu": {"gpu_out_of_memory"}}),
    Kind("preflight_failed", "none", 8, "before the start: memlock, /dev/shm, port, loop-back, tracing or PCIe"),
    Kind("probe_absent", "none", 8, "a node took no part in a probe"),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {row.name: row for row in ROWS}


def word_of(name: str) -> Word:
    """The verdict that a kind stands for."""
    return KINDS[name].word
