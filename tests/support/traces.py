"""CUDA traces on paper, in the text that Kineto writes (output_json.cpp): known times in, a document out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

BASE = 1_763_606_820_000_000_000
GEMM = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def event(category: str, name: str, start_ms: float, ms: float, args: str = "", *, pid: int | str = 0) -> str:
    """One complete event as Kineto prints it; ``args`` are JSON members without their braces."""
    said = f',\n    "args": {{\n      {args}\n    }}' if args else ""
    return (
        f'\n  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {json.dumps(pid)}, "tid": 7,\n'
        f'    "ts": {start_ms * 1000:.3f}, "dur": {ms * 1000:.3f}{said}\n  }}'
    )


def collective(start_ms: float, ms: float, *, number: int | None = None, group: str = "0", members: str = "[0, 1]",
               elements: int = 1 << 20) -> str:  # fmt: skip
    """An all_reduce of bfloat16 with what c10d says of it."""
    seq = "" if number is None else f', "Seq": {number}'
    args = (
        f'"External id": 17, "queued": 0, "device": 0, "context": 1, "stream": 20, "correlation": 99, '
        f'"Collective name": "allreduce", "In msg nelems": {elements}, "Out msg nelems": {elements}, '
        f'"Group size": {members.count(",") + 1}, "dtype": "BFloat16", "Process Group Name": "{group}", '
        f'"Process Group Description": "default_pg", "Process Group Ranks": "{members}"{seq}'
    )
    return event("kernel", ALL_REDUCE, start_ms, ms, args)


def step_of(number: int, *, late_ms: float = 0.0) -> list[str]:
    """A step of 100 ms: 60 ms compute, 30 ms all_reduce of which 10 lie under the second, 5 ms copy.

    ``late_ms`` of further compute put the all_reduce off, which ends with the others' all the same.
    """
    at = number * 100.0
    return [
        event("user_annotation", f"ProfilerStep#{number + 5}", at, 100.0, pid=4711),
        event("python_function", "train.py(203): train", at, 99.0, pid=4711),
        event("cuda_runtime", "cudaLaunchKernel", at + 1, 0.01, pid=4711),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at + 5, 5.0),
        event("kernel", GEMM, at + 10, 30.0),
        event("kernel", GEMM, at + 40, 30.0 + late_ms),
        collective(at + 60 + late_ms, 30.0 - late_ms),
    ]


def document(events: Sequence[str], rank: int | None = 0, world: int = 2, *, after: bool = False) -> str:
    """A whole trace; with ``after`` the rank stands behind the events, as in traces asked for by dynolog."""
    told = "" if rank is None else f'"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}}},'
    head = (
        '\n  {\n    "schemaVersion": 1,\n    "deviceProperties": [\n    {\n      "id": 0, "name": "H100"\n    }\n'
        f'    ],\n      {"" if after else told}\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {BASE},\n'
        '  "traceEvents": [\n  {\n    "name": "process_name", "ph": "M", "ts": 0.000, "pid": 4711, "tid": 0,\n'
        '    "args": {\n      "name": "python"\n    }\n  },'
    )
    tail = (
        ',\n  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        '    "pid": "", "tid": "", "ts": 9.000\n  }\n  ],\n'
        f'  {told if after else ""}\n  "traceName": "/tmp/trace.json"\n}}'
    )
    return head + ",".join(events) + tail


def rank_document(rank: int, steps: int = 6, **how: Any) -> str:
    """A trace of some steps, see :func:`step_of`."""
    return document([line for number in range(steps) for line in step_of(number, **how)], rank)
