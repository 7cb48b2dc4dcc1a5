"""What is known of single settings of NCCL and PyTorch, as rows: a name or value, what is wrong with it, what to do.

Sources: NCCL's manual (env.html, 2.30), the parameters that NCCL's source declares at its release tags from 2.10 to
2.32, and the headers of torch 2.13.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from hangtop.diagnosis.finding import Severity

Check = Callable[[str], str]
"""A value in, a complaint out; empty when the value is accepted."""


class SettingFault(NamedTuple):
    """What is wrong with one setting."""

    kind: str
    severity: Severity
    summary: str
    advice: str
    weight: float = 0.9


def faults_of(name: str, value: str, others: frozenset[str]) -> Iterator[SettingFault]:
    """Everything that is wrong with a setting by itself; ``others`` are the names that are set beside it."""
    if name in ACCEPTED and (wrong := ACCEPTED[name](value)):
        yield SettingFault("env_invalid", "warning", f"{name}={value} {wrong}", f"Correct {name} or remove it.")
    if name in DEBUG_ONLY and value.strip().lower() in DEBUG_ONLY[name][0]:
        yield SettingFault("env_debug_left_on", "warning", f"{name}={value}: {DEBUG_ONLY[name][1]}",
                    "Remove it once the fault is found.")  # fmt: skip
    if name in RENAMED:
        instead, since, works = RENAMED[name]
        if instead not in others:
            effect = "still works" if works else "does nothing any more"
            summary = f"{name} is the old name of {instead} (since {since}) and {effect}"
            yield SettingFault("env_deprecated", "info" if works else "warning", summary, f"Set {instead} instead.")
    elif name in NOT_READ:
        wanted, instead = NOT_READ[name]
        yield SettingFault("env_unknown", "warning", f"nobody reads {name}: set for {wanted}, it does nothing",
                    f"Remove it. What does it: {instead}.")  # fmt: skip
    elif near := _misspelt(name):
        yield SettingFault("env_unknown", "info", f"{name} is no setting that NCCL or PyTorch reads; {near} is",
                    f"Did you mean {near}?", 0.8)  # fmt: skip


@lru_cache(maxsize=1024)
def _misspelt(name: str) -> str:
    """The real name that an unknown one is very like; empty for real names, and for those of plugins and images."""
    if not name.startswith(("NCCL_", "TORCH_NCCL_", "TORCH_FR_")) or name.startswith(OF_PLUGINS) or name in NAMES:
        return ""
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.88)
    return near[0] if near else ""


OF_PLUGINS = ("NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_IBEXT_", "NCCL_INSPECTOR_", "NCCL_SHARP_", "NCCL_UCX_")
"""Beginnings of names that network plugins and profilers read."""


# --- names -------------------------------------------------------------------------------------------------------

_TIMEOUT = ("a longer time-out of collectives",
            "init_process_group(timeout=timedelta(minutes=…)), and the same for every new_group()")  # fmt: skip
_PORT = ("to get past 'address already in use'",
         "another MASTER_PORT, or --rdzv-endpoint=host:0; the port is PyTorch's")  # fmt: skip

NOT_READ = {
    "NCCL_TIMEOUT": _TIMEOUT,
    "NCCL_TIMEOUT_MS": _TIMEOUT,
    "NCCL_HEARTBEAT_TIMEOUT": ("a more patient watchdog", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
    "NCCL_SOCKET_TIMEOUT": (
        "more patience while connecting", "NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC (NCCL 2.24 and newer)"
    ),
    "NCCL_REUSE_SOCKET_ADDR": _PORT,
    "NCCL_SOCKET_REUSEADDR": _PORT,
    "NCCL_PORT_RANGE": (
        "to keep NCCL's ports inside a firewall's opening",
        "the kernel's net.ipv4.ip_local_port_range: NCCL's ports are ephemeral",
    ),
    "NCCL_RINGS": (
        "a ring order of one's own", "NCCL_TOPO_FILE, or NCCL_GRAPH_FILE; NCCL finds rings itself since 2.4"
    ),
    "CUDA_MEMORY_FRACTION": ("a bound on GPU memory", "torch.cuda.set_per_process_memory_fraction()"),
}  # fmt: skip
"""Names that people set and nobody reads: what for, and what does that."""

RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "torch 2.2", True),
    "NCCL_BLOCKING_WAIT": ("TORCH_NCCL_BLOCKING_WAIT", "torch 2.2", True),
    "NCCL_DESYNC_DEBUG": ("TORCH_NCCL_DESYNC_DEBUG", "torch 2.2", True),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": ("TORCH_FR_BUFFER_SIZE", "torch 2.12", True),
    "TORCH_NCCL_TRACE_CPP_STACK": ("TORCH_FR_CPP_STACK", "torch 2.8", True),
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": ("TORCH_FR_DUMP_TEMP_FILE", "torch 2.9", True),
    "NCCL_MIN_NCHANNELS": ("NCCL_MIN_CTAS", "NCCL 2.17", True),
    "NCCL_MAX_NCHANNELS": ("NCCL_MAX_CTAS", "NCCL 2.17", True),
    "NCCL_IB_GDR_LEVEL": ("NCCL_NET_GDR_LEVEL", "NCCL 2.4", True),
    "NCCL_TREE_THRESHOLD": ("NCCL_ALGO", "NCCL 2.5", False),
    "NCCL_LL_THRESHOLD": ("NCCL_PROTO", "NCCL 2.5", False),
    "NCCL_IB_CUDA_SUPPORT": ("NCCL_NET_GDR_LEVEL", "NCCL 2.4", False),
}
"""Old names: the one to use today, since when, and whether the old one still works."""

_ON = frozenset({"1", "true", "yes", "on"})
DEBUG_ONLY = {
    "NCCL_P2P_DISABLE": (_ON, "GPUs of a node talk through host memory instead of NVLink or PCIe"),
    "NCCL_IB_DISABLE": (_ON, "all traffic between nodes goes over TCP"),
    "NCCL_SHM_DISABLE": (_ON, "GPUs without P2P talk over the network even inside a node"),
    "NCCL_NET_GDR_LEVEL": (frozenset({"loc", "0"}), "GPUDirect RDMA is switched off"),
    "NCCL_NVLS_ENABLE": (frozenset({"0"}), "NVLink SHARP is switched off"),
    "NCCL_DEBUG": (frozenset({"trace"}), "every call is logged"),
    "CUDA_LAUNCH_BLOCKING": (_ON, "every kernel launch waits for its end: computation and communication never overlap"),
    "TORCH_DISTRIBUTED_DEBUG": (
        frozenset({"detail"}), "every collective is preceded by a check among all ranks, over the store and gloo"
    ),
    "TORCH_NCCL_BLOCKING_WAIT": (_ON, "wait() blocks the CPU: work is no longer queued ahead"),
}  # fmt: skip
"""The values that switch a setting for finding faults on, and what it does to a job."""

MUST_AGREE = tuple(
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

# --- values ------------------------------------------------------------------------------------------------------


def _integer(value: str) -> int | None:
    try:
        return int(value.strip(), 0)
    except ValueError:
        return None


def _between(low: int, high: int, note: str = "") -> Check:
    def check(value: str) -> str:
        number = _integer(value)
        if number is None:
            return f"is no number; accepted are {low} to {high}"
        return "" if low <= number <= high else f"is outside {low} to {high}" + (f": {note}" if note else "")

    return check


def _words(*words: str, several: bool = False, unless: str = "", note: str = "") -> Check:
    """One of these words, or a list of them; a list with one of the characters ``unless`` has a grammar of its own."""
    known = {word.lower() for word in words}

    def check(value: str) -> str:
        given = [word.strip().lstrip("^").lower() for word in value.split(",")] if several else [value.strip().lower()]
        wrong = [word for word in given if word not in known and (word or not several)]
        if not wrong or any(character in value for character in unless):
            return ""
        has = f"has {', '.join(wrong)}, which is" if several else "is"
        return f"{has} none of {', '.join(words)}" + (f": {note}" if note else "")

    return check


def _buffer(value: str) -> str:
    number = _integer(value)
    if number is None:
        return "is no number of bytes"
    if number >= 64 << 20:
        return f"takes {number >> 20} MiB of GPU memory for every channel and peer; the default is 4 MiB"
    return "" if number > 0 and number & (number - 1) == 0 else "is no power of two"


def _interfaces(value: str) -> str:
    return "" if all(word.strip() for word in value.lstrip("^=").split(",")) else "has an empty name in its list"


_FLAG, _TO_2, _TO_16, _TO_64 = _between(0, 1), _between(0, 2), _between(1, 16), _between(1, 64)
_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "0", "1", "2", "3", "4", "5")

ACCEPTED: dict[str, Check] = {
    "NCCL_IB_TIMEOUT": _between(
        0, 31, "it is an exponent (4.096 µs × 2^n, times the retries), kept in 8 bits of which the adapter uses 5"
    ),
    "NCCL_IB_RETRY_CNT": _between(0, 7),
    "NCCL_IB_QPS_PER_CONNECTION": _between(1, 128),
    "NCCL_IB_SL": _between(0, 15),
    "NCCL_IB_TC": _between(0, 255),
    "NCCL_IB_GID_INDEX": _between(-1, 255),
    "NCCL_SOCKET_NTHREADS": _TO_16,
    "NCCL_NSOCKS_PERTHREAD": _TO_16,
    "NCCL_NTHREADS": _words("64", "128", "256", "512"),
    "NCCL_BUFFSIZE": _buffer,
    "NCCL_MIN_CTAS": _TO_64,
    "NCCL_MAX_CTAS": _TO_64,
    "NCCL_CROSS_NIC": _TO_2,
    "NCCL_P2P_PXN_LEVEL": _TO_2,
    "NCCL_NVLS_ENABLE": _TO_2,
    "NCCL_MNNVL_ENABLE": _TO_2,
    "NCCL_SOCKET_FAMILY": _words("AF_INET", "AF_INET6"),
    "NCCL_SOCKET_IFNAME": _interfaces,
    "GLOO_SOCKET_IFNAME": _interfaces,
    "NCCL_DEBUG": _words("VERSION", "WARN", "INFO", "ABORT", "TRACE", "NONE", note="NCCL then logs nothing"),
    "NCCL_DEBUG_SUBSYS": _words(
        "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP",
        "REG", "PROFILE", "RAS", "ALLOC_HOST", "DESTROY", "ALL", several=True,
    ),
    "NCCL_P2P_LEVEL": _words("NVL", *_LEVELS),
    "NCCL_NET_GDR_LEVEL": _words("PXN", "P2C", *_LEVELS),
    "NCCL_ALGO": _words(
        "Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT", "Collnet", several=True, unless=":;"
    ),
    "NCCL_PROTO": _words("LL", "LL128", "Simple", several=True, unless=":;"),
    "NCCL_P2P_DISABLE": _FLAG,
    "NCCL_SHM_DISABLE": _FLAG,
    "NCCL_IB_DISABLE": _FLAG,
    "NCCL_RAS_ENABLE": _FLAG,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _between(0, 3),
    "TORCH_NCCL_BLOCKING_WAIT": _words("0", "1", "y", "yes", "t", "true", "n", "no", "f", "false"),
    "TORCH_DISTRIBUTED_DEBUG": _words("OFF", "INFO", "DETAIL"),
}  # fmt: skip
"""Which values NCCL and PyTorch accept."""

_NCCL = """
AGG_ALLOC_MODE AGG_CHANNEL_SIZE ALGO ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CE_COLL_AG_MULTICAST_THRESHOLD
CFT_ENABLE CGA_CLUSTER_SIZE CHECKS_DISABLE CHECK_MODE CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE COLLNET_NODE_THRESHOLD
COMM_BLOCKING COMM_ID COMM_PROPERTIES_INITIALIZER COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONF_FILE
CONNECT_ROUND_MAX_PEERS CREATE_THREAD_CONTEXT CROSS_NIC CTA_POLICY CUDA_PATH CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG
DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS DEV_API_JIT DEV_COMM_REQUIREMENTS_INITIALIZER
DIAGNOSTICS_ECC_THRESHOLD DISABLE_MEM_MANAGER DMABUF_ENABLE ELASTIC_BUFFER_REGISTER ENABLE_VERSION_CHECK
ENQUEUE_REARCH_ENABLE ENV_PLUGIN GDAKI_USE_RELIABLE_DB GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE
GDRCOPY_SYNC_ENABLE GDRCOPY_TAIL_ENABLE GDR_FLUSH_DISABLE GIN_CONNECTION_RAIL GIN_COUNTER_POOL_SIZE GIN_ENABLE
GIN_ERROR_QUERY_SEC GIN_EXCLUSIVE_CONTEXTS GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC
GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_OOO_OPT GIN_IB_TC GIN_NCONNECTIONS GIN_NCONTEXTS GIN_PLUGIN
GIN_PLUGIN_REF_COUNT GIN_PROXY_NTHREADS GIN_PROXY_POLL_BATCH GIN_PROXY_QUEUE_SIZE GIN_SIGNAL_POOL_SIZE GIN_TYPE
GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_FILE GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER
GRAPH_STREAM_ORDERING GROUP_CUDA_STREAM HIER_CE_COLL_AG_RAIL_RING_ENABLE HIER_CE_COLL_NUM_CTX HOSTID IBVERBS_LIB
IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DEVICE_PCI_ORDER
IB_DISABLE IB_ECE_ENABLE IB_EVENT_BASED_LB IB_EVENT_BASED_LB_REMOTE IB_FIFO_TC IB_GID_INDEX IB_HCA IB_MERGE_NICS
IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY
IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED IB_RECEIVER_SIDE_MATCHING_SCHEME
IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY
IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT
IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS
IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN
IB_TC IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IB_WQE_LATENCY_REPORT IB_WQE_LATENCY_THRESHOLD_NS
IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P IGNORE_NET_MISMATCH IPC_USE_ABSTRACT_SOCKET
L1_SHARED_MEMORY_CARVEOUT LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE
LL128_C2C LL128_NTHREADS LL_BUFFSIZE LL_THRESHOLD LOCAL_REGISTER LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS
MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE MNNVL
MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID
MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY NET_DISABLE_INTRA
NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C NET_GDR_LEVEL NET_GDR_MLOPART NET_GDR_READ NET_MERGE_LEVEL NET_MERGE_POLICY
NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS NET_SHARED_COMMS NO_CACHE
NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NUM_RMA_INT_CTX NVB_DISABLE NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE
NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE OOB_NET_IFNAME
P2P_DIRECT_DISABLE P2P_DISABLE P2P_EPOCH_ENABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE
P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PER_CHANNEL_NET_BW P2P_PER_CHANNEL_REG_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE
P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PARAM_DUMP_ALL PAT_ENABLE PROFILER_PLUGIN PROGRESS_APPENDOP_FREQ
PROGRESS_COUNTERS PROGRESS_COUNTER_MONITOR_POLL_MS PROGRESS_COUNTER_MONITOR_STALE_MS
PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC PROTO PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL PROXY_PROFILE
PXN_C2C PXN_DISABLE RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS RMA_DISABLE RMA_EAGER_INIT
RMA_MULTI_CTX_THRESHOLD RMA_PLUGIN RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE RUNTIME_CONNECT
RUN_DIAGNOSTICS RUN_RAS_DIAGNOSTICS SET_CPU_STACK_SIZE SET_STACK_SIZE SET_THREAD_NAME SHADOW_MEMPOOL_MAX_SIZE
SHM_DISABLE SHM_LOCALITY SHM_MEMCPY_MODE SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD
SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE SOCKET_MAGIC SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC
SOCKET_RCVBUF SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_GIN_KERNELS_ENABLE
SYM_KERNEL SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE THREAD_THRESHOLDS
TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TOPO_SPLIT_MLOPART TREE_THRESHOLD TUNER_PLUGIN UID_STAGGER_RATE
UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS USE_CMAKE WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES
WORK_FIFO_BYTES WORK_FIFO_DEPTH
"""
_TORCH = """
TORCH_FR_BUFFER_SIZE TORCH_FR_CPP_STACK TORCH_FR_DUMP_DYNAMIC_FILE_NAME TORCH_FR_DUMP_ON_TIMEOUT
TORCH_FR_DUMP_TEMP_FILE TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC TORCH_NCCL_ASYNC_ERROR_HANDLING
TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_BCAST_UNIQUEID TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_COORD_CHECK_MILSEC
TORCH_NCCL_CUDA_EVENT_CACHE TORCH_NCCL_CUDA_EVENT_CACHE_DISABLE TORCH_NCCL_DEBUG_INFO_PIPE_FILE
TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_NCCL_DESYNC_DEBUG TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_NCCL_ENABLE_MONITORING
TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_EXTRA_DUMP_ON_EXEC TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC TORCH_NCCL_HIGH_PRIORITY
TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN TORCH_NCCL_NAN_CHECK TORCH_NCCL_NONBLOCKING_TIMEOUT
TORCH_NCCL_PROPAGATE_ERROR TORCH_NCCL_RANKS_PER_ROOT TORCH_NCCL_RETHROW_CUDA_ERRORS
TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_TRACE_CPP_STACK
TORCH_NCCL_USE_COMM_NONBLOCKING TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC
"""
NAMES = (*(f"NCCL_{name}" for name in _NCCL.split()), *_TORCH.split(), *RENAMED)
"""Every name that some NCCL from 2.10 to 2.32, or some torch from 2.1 on, reads."""
