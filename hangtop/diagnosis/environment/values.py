"""Which values NCCL and PyTorch accept, and what they make of others.

Sources: NCCL's manual (env.html, 2.30) and ``src/transport/net_ib.cc``, ``src/debug.cc``, ``src/misc/param.cc``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Check = Callable[[str], str]
"""A value in, a complaint out; empty when the value is accepted."""


@dataclass(frozen=True, slots=True)
class _Between:
    low: int
    high: int
    note: str = ""

    def __call__(self, value: str) -> str:
        number = _integer(value)
        if number is None:
            return f"is no number; accepted are {self.low} to {self.high}"
        if not self.low <= number <= self.high:
            return f"is outside {self.low} to {self.high}" + (f": {self.note}" if self.note else "")
        return ""


@dataclass(frozen=True, slots=True)
class _OneOf:
    words: tuple[str, ...]
    note: str = ""

    def __call__(self, value: str) -> str:
        if value.strip().lower() in {word.lower() for word in self.words}:
            return ""
        return f"is none of {', '.join(self.words)}" + (f": {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class _ListOf:
    words: tuple[str, ...]

    def __call__(self, value: str) -> str:
        known = {word.lower() for word in self.words}
        given = [word.strip().lstrip("^").lower() for word in value.strip().split(",")]
        wrong = [word for word in given if word and word not in known]
        return f"has {', '.join(wrong)}, which is none of {', '.join(self.words)}" if wrong else ""


def _integer(value: str) -> int | None:
    try:
        return int(value.strip(), 0)
    except ValueError:
        return None


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


def _log_levels(value: str) -> str:
    return _OneOf(("VERSION", "WARN", "INFO", "ABORT", "TRACE", "NONE"), "NCCL then logs nothing")(value)


_FLAG = _Between(0, 1)
_SUBSYSTEMS = _ListOf(
    ("INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP",
     "REG", "PROFILE", "RAS", "ALLOC_HOST", "DESTROY", "ALL"),
)  # fmt: skip

CHECKS: dict[str, Check] = {
    "NCCL_IB_TIMEOUT": _Between(
        0, 31, "it is an exponent (4.096 µs × 2^n, times the retries), kept in 8 bits of which the adapter uses 5"
    ),
    "NCCL_IB_RETRY_CNT": _Between(0, 7),
    "NCCL_IB_QPS_PER_CONNECTION": _Between(1, 128),
    "NCCL_IB_SL": _Between(0, 15),
    "NCCL_IB_TC": _Between(0, 255),
    "NCCL_IB_GID_INDEX": _Between(-1, 255),
    "NCCL_SOCKET_NTHREADS": _Between(1, 16),
    "NCCL_NSOCKS_PERTHREAD": _Between(1, 16),
    "NCCL_NTHREADS": _OneOf(("64", "128", "256", "512")),
    "NCCL_BUFFSIZE": _buffer,
    "NCCL_MIN_CTAS": _Between(1, 64),
    "NCCL_MAX_CTAS": _Between(1, 64),
    "NCCL_CGA_CLUSTER_SIZE": _Between(0, 8),
    "NCCL_CROSS_NIC": _Between(0, 2),
    "NCCL_P2P_PXN_LEVEL": _Between(0, 2),
    "NCCL_NVLS_ENABLE": _Between(0, 2),
    "NCCL_MNNVL_ENABLE": _Between(0, 2),
    "NCCL_IB_PCI_RELAXED_ORDERING": _Between(0, 2),
    "NCCL_LAUNCH_MODE": _OneOf(("PARALLEL", "GROUP")),
    "NCCL_SOCKET_FAMILY": _OneOf(("AF_INET", "AF_INET6")),
    "NCCL_SOCKET_IFNAME": _interfaces,
    "GLOO_SOCKET_IFNAME": _interfaces,
    "NCCL_DEBUG": _log_levels,
    "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS,
    "NCCL_P2P_LEVEL": _OneOf(("LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "0", "1", "2", "3", "4", "5")),
    "NCCL_NET_GDR_LEVEL": _OneOf(("LOC", "PIX", "PXB", "PHB", "SYS", "PXN", "P2C", "0", "1", "2", "3", "4", "5")),
    "NCCL_ALGO": lambda value: (
        "" if ":" in value or ";" in value
        else _ListOf(("Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT", "Collnet"))(value)
    ),
    "NCCL_PROTO": lambda value: (
        "" if ":" in value or ";" in value else _ListOf(("LL", "LL128", "Simple"))(value)
    ),
    "NCCL_P2P_DISABLE": _FLAG,
    "NCCL_SHM_DISABLE": _FLAG,
    "NCCL_IB_DISABLE": _FLAG,
    "NCCL_CUMEM_ENABLE": _Between(-2, 1),
    "NCCL_RAS_ENABLE": _FLAG,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _Between(0, 3),
    "TORCH_NCCL_BLOCKING_WAIT": _OneOf(("0", "1", "y", "yes", "t", "true", "n", "no", "f", "false")),
    "TORCH_DISTRIBUTED_DEBUG": _OneOf(("OFF", "INFO", "DETAIL")),
}  # fmt: skip


def complaint(name: str, value: str) -> str:
    """What is wrong with a value, as the end of a sentence; empty when it is accepted or unknown to this table."""
    check = CHECKS.get(name)
    return check(value) if check else ""
