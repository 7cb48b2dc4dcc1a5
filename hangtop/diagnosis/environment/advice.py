"""Advice that circulates and is wrong, old names, and settings that do not belong in production.

Each row was checked against NCCL's source at every release tag from 2.10 to 2.30 and torch 2.13.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Myth:
    """A name that people set and nobody reads: why they set it, and what does what they wanted."""

    wanted: str
    instead: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A name that still works, or once did, and the one to use today."""

    instead: str
    since: str
    works: bool = True


@dataclass(frozen=True, slots=True)
class DebugOnly:
    """A setting for finding faults; ``values`` are those that switch it on, ``cost`` is what it does to a job."""

    values: frozenset[str]
    cost: str


_TIMEOUT = "init_process_group(timeout=timedelta(minutes=…)), and the same for every new_group()"

MYTHS = {
    "NCCL_TIMEOUT": Myth("a longer time-out of collectives", _TIMEOUT),
    "NCCL_TIMEOUT_MS": Myth("a longer time-out of collectives", _TIMEOUT),
    "NCCL_HEARTBEAT_TIMEOUT": Myth("a more patient watchdog", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
    "NCCL_SOCKET_TIMEOUT": Myth(
        "more patience while connecting", "NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC (NCCL 2.24 and newer)"
    ),
    "NCCL_REUSE_SOCKET_ADDR": Myth(
        "to get past 'address already in use'", "another MASTER_PORT, or --rdzv-endpoint=host:0; the port is PyTorch's"
    ),
    "NCCL_SOCKET_REUSEADDR": Myth(
        "to get past 'address already in use'", "another MASTER_PORT, or --rdzv-endpoint=host:0; the port is PyTorch's"
    ),
    "NCCL_PORT_RANGE": Myth(
        "to keep NCCL's ports inside a firewall's opening",
        "the kernel's net.ipv4.ip_local_port_range: NCCL's ports are ephemeral",
    ),
    "NCCL_RINGS": Myth(
        "a ring order of one's own", "NCCL_TOPO_FILE, or NCCL_GRAPH_FILE; NCCL finds rings itself since 2.4"
    ),
    "CUDA_MEMORY_FRACTION": Myth("a bound on GPU memory", "torch.cuda.set_per_process_memory_fraction()"),
    "ACCELERATE_DISABLE_NCCL": Myth(
        "to keep Accelerate off NCCL", "Accelerator(cpu=True), or backend='gloo' in the process group's options"
    ),
    "NCCL_MAX_NRINGS": Myth("fewer or more rings", "NCCL_MAX_CTAS"),
    "NCCL_MIN_NRINGS": Myth("fewer or more rings", "NCCL_MIN_CTAS"),
}  # fmt: skip

RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": Renamed("TORCH_NCCL_ASYNC_ERROR_HANDLING", "torch 2.2"),
    "NCCL_BLOCKING_WAIT": Renamed("TORCH_NCCL_BLOCKING_WAIT", "torch 2.2"),
    "NCCL_DESYNC_DEBUG": Renamed("TORCH_NCCL_DESYNC_DEBUG", "torch 2.2"),
    "NCCL_ENABLE_TIMING": Renamed("TORCH_NCCL_ENABLE_TIMING", "torch 2.2"),
    "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": Renamed("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "torch 2.2"),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": Renamed("TORCH_FR_BUFFER_SIZE", "torch 2.12"),
    "TORCH_NCCL_TRACE_CPP_STACK": Renamed("TORCH_FR_CPP_STACK", "torch 2.8"),
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": Renamed("TORCH_FR_DUMP_TEMP_FILE", "torch 2.9"),
    "NCCL_MIN_NCHANNELS": Renamed("NCCL_MIN_CTAS", "NCCL 2.17"),
    "NCCL_MAX_NCHANNELS": Renamed("NCCL_MAX_CTAS", "NCCL 2.17"),
    "NCCL_CHECK_POINTERS": Renamed("NCCL_CHECK_MODE", "NCCL 2.29"),
    "NCCL_IB_GDR_LEVEL": Renamed("NCCL_NET_GDR_LEVEL", "NCCL 2.4"),
    "NCCL_TREE_THRESHOLD": Renamed("NCCL_ALGO", "NCCL 2.5", works=False),
    "NCCL_LL_THRESHOLD": Renamed("NCCL_PROTO", "NCCL 2.5", works=False),
    "NCCL_SINGLE_RING_THRESHOLD": Renamed("NCCL_ALGO", "NCCL 2.3", works=False),
    "NCCL_IB_CUDA_SUPPORT": Renamed("NCCL_NET_GDR_LEVEL", "NCCL 2.4", works=False),
    "NCCL_CHECKS_DISABLE": Renamed("NCCL_CHECK_MODE", "NCCL 2.2", works=False),
}

_ON = frozenset({"1", "true", "yes", "on"})

DEBUG_ONLY = {
    "NCCL_P2P_DISABLE": DebugOnly(_ON, "GPUs of a node talk through host memory instead of NVLink or PCIe"),
    "NCCL_IB_DISABLE": DebugOnly(_ON, "all traffic between nodes goes over TCP"),
    "NCCL_SHM_DISABLE": DebugOnly(_ON, "GPUs without P2P talk over the network even inside a node"),
    "NCCL_NET_GDR_LEVEL": DebugOnly(frozenset({"loc", "0"}), "GPUDirect RDMA is switched off"),
    "NCCL_NVLS_ENABLE": DebugOnly(frozenset({"0"}), "NVLink SHARP is switched off"),
    "NCCL_DEBUG": DebugOnly(frozenset({"trace"}), "every call is logged"),
    "CUDA_LAUNCH_BLOCKING": DebugOnly(
        _ON, "every kernel launch waits for its end: computation and communication never overlap"
    ),
    "TORCH_DISTRIBUTED_DEBUG": DebugOnly(
        frozenset({"detail"}), "every collective is preceded by a check among all ranks, over the store and gloo"
    ),
    "TORCH_NCCL_BLOCKING_WAIT": DebugOnly(_ON, "wait() blocks the CPU: work is no longer queued ahead"),
    "TORCH_NCCL_ENABLE_TIMING": DebugOnly(_ON, "two CUDA events are recorded around every collective"),
}  # fmt: skip
"""The NCCL manual's chapter "Debugging" says of its part: not for production."""

MUST_AGREE = frozenset(
    """
NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_NTHREADS NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS
NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_NET NCCL_NET_PLUGIN NCCL_CROSS_NIC
NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE NCCL_NVLS_ENABLE NCCL_MNNVL_ENABLE NCCL_COLLNET_ENABLE NCCL_RUNTIME_CONNECT
NCCL_P2P_NET_CHUNKSIZE NCCL_IB_SPLIT_DATA_ON_QPS NCCL_SOCKET_FAMILY NCCL_OOB_NET_ENABLE NCCL_NCHANNELS_PER_NET_PEER
TORCH_DISTRIBUTED_DEBUG TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_HIGH_PRIORITY
GLOO_DEVICE_TRANSPORT WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID
""".split()
)
"""Ranks that differ in one of these cut messages short, choose different algorithms, or wait for one another."""

FATAL_TO_DIFFER = frozenset({"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG", "NCCL_NET"})
"""Of those, the ones by which a job does not even meet."""
