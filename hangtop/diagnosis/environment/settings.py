"""What is known of single settings: accepted values, old names, advice that is wrong, what is for debugging alone.

Sources: NCCL's manual (env.html, 2.30), its source at every release tag from 2.10 to 2.30, and torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Check = Callable[[str], str]
"""A value in, a complaint out; empty when the value is accepted."""


class Renamed(NamedTuple):
    """A name that still works, or once did, and the one to use today."""

    instead: str
    since: str
    works: bool = True


class DebugOnly(NamedTuple):
    """A setting for finding faults: the values that switch it on, and what it does to a job."""

    values: frozenset[str]
    cost: str


_TIMEOUT = ("a longer time-out of collectives",
            "init_process_group(timeout=timedelta(minutes=…)), and the same for every new_group()")  # fmt: skip
_PORT = ("to get past 'address already in use'",
         "another MASTER_PORT, or --rdzv-endpoint=host:0; the port is PyTorch's")  # fmt: skip

MYTHS: dict[str, tuple[str, str]] = {
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
    "ACCELERATE_DISABLE_NCCL": (
        "to keep Accelerate off NCCL", "Accelerator(cpu=True), or backend='gloo' in the process group's options"
    ),
    "NCCL_MAX_NRINGS": ("fewer or more rings", "NCCL_MAX_CTAS"),
    "NCCL_MIN_NRINGS": ("fewer or more rings", "NCCL_MIN_CTAS"),
}  # fmt: skip
"""Names that people set and nobody reads: what for, and what does that."""

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
}
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


def _one_of(*words: str, note: str = "") -> Check:
    def check(value: str) -> str:
        known = value.strip().lower() in {word.lower() for word in words}
        return "" if known else f"is none of {', '.join(words)}" + (f": {note}" if note else "")

    return check


def _list_of(*words: str, unless: str = "") -> Check:
    """A list of these words; what has one of the characters ``unless`` has a grammar of its own."""

    def check(value: str) -> str:
        known = {word.lower() for word in words}
        given = [word.strip().lstrip("^").lower() for word in value.strip().split(",")]
        wrong = [word for word in given if word and word not in known]
        own = any(character in value for character in unless)
        return f"has {', '.join(wrong)}, which is none of {', '.join(words)}" if wrong and not own else ""

    return check


def _buffer(value: str) -> str:
    number = _integer(value)
    if number is None:
        return "is no number of bytes"
    if number >= 64 << 20:
        return f"takes {number >> 20} MiB of GPU memory for every channel and peer; the default is 4 MiB"
    return "" if number > 0 and number & (number - 1) == 0 else "is no power of two"


def _interfaces(value: str) -> str:
    names = value.lstrip("^=").split(",")
    return "has an empty name in its list" if "" in (name.strip() for name in names) else ""


_FLAG, _TO_2, _TO_16, _TO_64 = _between(0, 1), _between(0, 2), _between(1, 16), _between(1, 64)
_LEVELS = ("PIX", "PXB", "PHB", "SYS", "0", "1", "2", "3", "4", "5")

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
    "NCCL_NTHREADS": _one_of("64", "128", "256", "512"),
    "NCCL_BUFFSIZE": _buffer,
    "NCCL_MIN_CTAS": _TO_64,
    "NCCL_MAX_CTAS": _TO_64,
    "NCCL_CGA_CLUSTER_SIZE": _between(0, 8),
    "NCCL_CROSS_NIC": _TO_2,
    "NCCL_P2P_PXN_LEVEL": _TO_2,
    "NCCL_NVLS_ENABLE": _TO_2,
    "NCCL_MNNVL_ENABLE": _TO_2,
    "NCCL_IB_PCI_RELAXED_ORDERING": _TO_2,
    "NCCL_LAUNCH_MODE": _one_of("PARALLEL", "GROUP"),
    "NCCL_SOCKET_FAMILY": _one_of("AF_INET", "AF_INET6"),
    "NCCL_SOCKET_IFNAME": _interfaces,
    "GLOO_SOCKET_IFNAME": _interfaces,
    "NCCL_DEBUG": _one_of("VERSION", "WARN", "INFO", "ABORT", "TRACE", "NONE", note="NCCL then logs nothing"),
    "NCCL_DEBUG_SUBSYS": _list_of(
        "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP",
        "REG", "PROFILE", "RAS", "ALLOC_HOST", "DESTROY", "ALL",
    ),
    "NCCL_P2P_LEVEL": _one_of("LOC", "NVL", *_LEVELS),
    "NCCL_NET_GDR_LEVEL": _one_of("LOC", "PXN", "P2C", *_LEVELS),
    "NCCL_ALGO": _list_of(
        "Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT", "Collnet", unless=":;"
    ),
    "NCCL_PROTO": _list_of("LL", "LL128", "Simple", unless=":;"),
    "NCCL_P2P_DISABLE": _FLAG,
    "NCCL_SHM_DISABLE": _FLAG,
    "NCCL_IB_DISABLE": _FLAG,
    "NCCL_CUMEM_ENABLE": _between(-2, 1),
    "NCCL_RAS_ENABLE": _FLAG,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _between(0, 3),
    "TORCH_NCCL_BLOCKING_WAIT": _one_of("0", "1", "y", "yes", "t", "true", "n", "no", "f", "false"),
    "TORCH_DISTRIBUTED_DEBUG": _one_of("OFF", "INFO", "DETAIL"),
}  # fmt: skip
"""Which values NCCL and PyTorch accept."""
