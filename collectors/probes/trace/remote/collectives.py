"""Which events of a trace are communication, and what they say of themselves.

Kineto copies c10d's own record onto NCCL's kernels (``Collective name``, ``In msg nelems``, ``Process Group Name`` …,
output_json.cpp); without it the kernel's name must do, which tells the operation, though one kernel may run several
when calls are grouped. On CPU gloo's operations are annotations, ``gloo:all_reduce``, from call to completion.
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Optional

KERNEL = re.compile(
    r"nccl\w{0,80}?Kernel|rcclGeneric|nvshmem|msccl|multimem_\w{0,80}?(?:reduce|gather)|(?:one|two)_shot_all_reduce"
    r"|cross_device_reduce",
    re.IGNORECASE,
)
"""Names of communication kernels: NCCL and RCCL of all versions, NVSHMEM, MSCCL, torch's and vLLM's own."""
ANNOTATION = re.compile(r"(?:gloo|nccl|mpi|ucc|xccl):(?=\w)")
"""Begins c10d's annotation of one operation."""

_OPS = (
    ("allreduce", "all_reduce"), ("reducescatter", "reduce_scatter"), ("allgather", "all_gather"),
    ("alltoall", "all_to_all"), ("broadcast", "broadcast"), ("barrier", "barrier"), ("sendrecv", "send_recv"),
    ("send", "send"), ("recv", "recv"), ("gather", "gather"), ("scatter", "scatter"), ("reduce", "reduce"),
)  # fmt: skip
_NO_LETTER = re.compile(r"[^a-z]")
_OTHER = 60

_BYTES = {
    "double": 8, "long": 8, "complexfloat": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2, "byte": 1,
    "char": 1, "bool": 1, "complexdouble": 16, "complexhalf": 4, "uint64": 8, "uint32": 4, "uint16": 2,
}  # fmt: skip


class CollectiveCall(NamedTuple):
    """What an event says of its collective; None and empty where it says nothing."""

    op: str
    group: str
    """Name of the process group, the same on all its ranks."""
    ranks: str
    """Its members as torch writes them, ``[0, 1, 2, 3]``; shortened by torch when there are many."""
    group_size: Optional[int]
    size: Optional[int]
    """Bytes, of the buffer over all ranks where the operation has one (nccl-tests' S)."""
    seq: Optional[int]
    """Its number in the group; the same on all ranks."""


def op_of(name: str) -> str:
    """``all_reduce`` for ``allreduce``, ``ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)`` and ``gloo:all_reduce``."""
    letters = _NO_LETTER.sub("", name[:200].lower())
    for word, op in _OPS:
        if word in letters:
            return op
    return name[:_OTHER]


def described(name: str, args: Mapping[str, object]) -> CollectiveCall:
    """What a communication event says; ``args`` may hold anything."""
    collective = args.get("Collective name")
    group = args.get("Process Group Name")
    description = args.get("Process Group Description")
    ranks = args.get("Process Group Ranks")
    named = group if isinstance(group, str) and group else ""
    words = description if isinstance(description, str) and description not in ("", "undefined") else ""
    return CollectiveCall(
        op_of(collective if isinstance(collective, str) and collective else name),
        ("%s %s" % (named, words)).strip()[:100],
        ranks[:200] if isinstance(ranks, str) else str(ranks)[:200] if isinstance(ranks, list) else "",
        _count(args.get("Group size")),
        _size(args),
        _count(args.get("Seq")),
    )


def _size(args: Mapping[str, object]) -> Optional[int]:
    known = [n for n in (_count(args.get("In msg nelems")), _count(args.get("Out msg nelems"))) if n is not None]
    dtype = args.get("dtype")
    if not known or not isinstance(dtype, str):
        return None
    lowered = dtype.lower()
    each = 1 if lowered.startswith("float8") else _BYTES.get(lowered)
    return None if each is None else max(known) * each


def _count(value: object) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None
