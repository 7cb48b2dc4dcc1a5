"""What is known of single settings of NCCL and PyTorch, as rows: a name or value, what is wrong with it, what to do.

Sources: the manual of NCCL (env.html, 2.30), its source at the tags from 2.18 to 2.32, and the headers of torch 2.13.
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


def faults_of(name: str, value: str) -> Iterator[SettingFault]:
    """Everything that is wrong with a setting by itself."""
    if name in ACCEPTED and (wrong := ACCEPTED[name](value)):
        yield SettingFault("env_invalid", "warning", f"{name}={value} {wrong}", f"Correct {name} or remove it.")
    if name in DEBUG_ONLY and value.strip().lower() in DEBUG_ONLY[name][0]:
        yield SettingFault("env_debug_left_on", "warning", f"{name}={value}: {DEBUG_ONLY[name][1]}",
                           "Remove it once the fault is found.")  # fmt: skip
    if name in NOT_READ:
        wanted, instead = NOT_READ[name]
        yield SettingFault("env_unknown", "warning", f"nobody reads {name}: set for {wanted}, it does nothing",
                           f"Remove it. What does it: {instead}.")  # fmt: skip
    elif near := _misspelt(name):
        yield SettingFault("env_unknown", "info", f"{name} is no setting that NCCL or PyTorch reads; {near} is",
                           f"Did you mean {near}?", 0.8)  # fmt: skip


@lru_cache(maxsize=1024)
def _misspelt(name: str) -> str:
    """The common name that an unknown one is very like; empty for common names and for rare ones."""
    if not name.startswith(("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_")) or name in COMMON:
        return ""
    return next(iter(difflib.get_close_matches(name, COMMON, n=1, cutoff=0.92)), "")


_TIMEOUT = ("a longer time-out of collectives",
            "init_process_group(timeout=timedelta(minutes=…)), and the same for every new_group()")  # fmt: skip
NOT_READ = {
    "NCCL_TIMEOUT": _TIMEOUT,
    "NCCL_TIMEOUT_MS": _TIMEOUT,
    "NCCL_HEARTBEAT_TIMEOUT": ("a more patient watchdog", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
    "NCCL_SOCKET_TIMEOUT": ("more patience while connecting", "NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC"),
    "NCCL_PORT_RANGE": (
        "to keep NCCL's ports inside a firewall's opening",
        "the kernel's net.ipv4.ip_local_port_range: NCCL's ports are ephemeral",
    ),
}
"""Names that people set and nobody reads: what for, and what does that."""

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
NCCL_CUMEM_ENABLE NCCL_NVLS_ENABLE NCCL_MNNVL_ENABLE NCCL_COLLNET_ENABLE NCCL_RUNTIME_CONNECT NCCL_P2P_NET_CHUNKSIZE
NCCL_IB_SPLIT_DATA_ON_QPS NCCL_SOCKET_FAMILY TORCH_DISTRIBUTED_DEBUG TORCH_NCCL_BLOCKING_WAIT
TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_HIGH_PRIORITY GLOO_DEVICE_TRANSPORT WORLD_SIZE MASTER_ADDR MASTER_PORT
TORCHELASTIC_RUN_ID
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


def _words(*words: str, several: bool = False) -> Check:
    """One of these words, or a list of them; a list with a colon or semicolon has a grammar of its own."""
    known = {word.lower() for word in words}

    def check(value: str) -> str:
        given = [word.strip().lstrip("^").lower() for word in (value.split(",") if several else [value])]
        wrong = [word for word in given if word not in known and (word or not several)]
        if not wrong or (several and not {":", ";"}.isdisjoint(value)):
            return ""
        return f"has {', '.join(wrong)}, which is none of {', '.join(words)}"

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


_FLAG = _between(0, 1)
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
    "NCCL_BUFFSIZE": _buffer,
    "NCCL_SOCKET_FAMILY": _words("AF_INET", "AF_INET6"),
    "NCCL_SOCKET_IFNAME": _interfaces,
    "GLOO_SOCKET_IFNAME": _interfaces,
    "NCCL_DEBUG": _words("VERSION", "WARN", "INFO", "ABORT", "TRACE", "NONE"),
    "NCCL_P2P_LEVEL": _words("NVL", *_LEVELS),
    "NCCL_NET_GDR_LEVEL": _words("PXN", "P2C", *_LEVELS),
    "NCCL_ALGO": _words(
        "Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT", "Collnet", several=True
    ),
    "NCCL_PROTO": _words("LL", "LL128", "Simple", several=True),
    "NCCL_P2P_DISABLE": _FLAG,
    "NCCL_SHM_DISABLE": _FLAG,
    "NCCL_IB_DISABLE": _FLAG,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _between(0, 3),
    "TORCH_DISTRIBUTED_DEBUG": _words("OFF", "INFO", "DETAIL"),
}  # fmt: skip
"""Which values NCCL and PyTorch accept, of the settings whose wrong value hangs a job or slows it."""

COMMON = tuple(
    sorted(
        {
            *ACCEPTED,
            *DEBUG_ONLY,
            *(name for name in MUST_AGREE if name.startswith(("NCCL_", "TORCH_NCCL_"))),
            *"""
NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_IB_HCA NCCL_IB_PKEY NCCL_RAS_ENABLE NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD
NCCL_TOPO_FILE TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_NCCL_DESYNC_DEBUG
TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC
TORCH_NCCL_TRACE_BUFFER_SIZE
""".split(),
        }
    )
)
"""Names that a misspelt one is compared with."""
