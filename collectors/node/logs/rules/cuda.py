"""CUDA and HIP through torch, XLA or by themselves: out of memory, errors of the device, a GPU that is not seen."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


_AMOUNTS = (
    ("tried", r"[Tt]ried to allocate ([\d.]+) ([KMGT]?i?B)|(?:trying|[Aa]ttempting) to allocate ([\d.]+) ?([KMGT]i?B)"),
    ("capacity", r"has a total capacity of ([\d.]+) ([KMGT]?i?B)|; ([\d.]+) ([KMGT]?i?B) total capacity"),
    ("free", r"of which ([\d.]+) ([KMGT]?i?B) is free|; ([\d.]+) ([KMGT]?i?B) free"),
    ("in_use", r"this process has ([\d.]+) ([KMGT]?i?B) memory in use|; ([\d.]+) ([KMGT]?i?B) already allocated"),
)


_DEVICE = re.compile(r"GPU (\d{1,4}) has a total|\(GPU (\d{1,4}); ")


_MEANINGS = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        ("device_assert", r"device-side assert|assertion failed"),
        ("illegal_access", r"illegal (?:memory access|address)|misaligned address|memory access fault|MEMORY_FAULT"),
        ("nvlink", r"nvlink"),
        ("ecc", r"\becc\b|uncorrectable"),
        ("gpu_lost", r"gpu is lost|fallen off the bus|unrecoverable|device.*lost|GPU Hang"),
        ("invalid_device", r"invalid device ordinal|no cuda-capable device"),
        ("busy", r"busy or unavailable"),
        ("launch_failure", r"launch failure|launch timed out|unspecified|HSA_STATUS"),
        ("initialization", r"initialization error|driver version is insufficient|system not yet initialized"),
    )
)


def signature(error: str) -> str:
    """What an error of CUDA means."""
    return next((name for name, pattern in _MEANINGS if pattern.search(error)), "other")


def _error(match: "Match[str]", data: Data) -> Optional[Data]:
    what = str(data.get("error", ""))
    return dict(data, error=what, signature=signature(what)) if what else None


def _asserted(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, error="assertion failed: " + str(data.get("error", "")), signature="device_assert")


def _memory(match: "Match[str]", data: Data) -> Optional[Data]:
    """Bytes as torch prints them, ``20.00 MiB``."""
    data.setdefault("backend", "CUDA")
    for name, pattern in _AMOUNTS:
        found = re.search(pattern, match.string)
        if found is not None:
            amount, unit = (found.group(1) or found.group(3)), (found.group(2) or found.group(4))
            if amount.count(".") < 2 and amount != "." and len(amount) < 16:
                data[name] = int(float(amount) * _UNITS.get(unit[0], 1))
    device = _DEVICE.search(match.string)
    if device is not None:
        data["device"] = number(device.group(1) or device.group(2))
    return data


RULES = (
    Rule("memory", "torch.out_of_memory",
         r"(?P<backend>CUDA|HIP|XPU)(?: error:)? out of memory|torch(?:\.cuda)?\.OutOfMemoryError"
         r"|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: [^\r\n]{0,80}(?:\bmemory\b|\ballocat)|\b(?:cuda"
         r"|hip)Error(?:MemoryAllocation|OutOfMemory) ?\)?: out of memory",
         Example("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total "
         "capacity of 79.15 GiB of which 10.00 MiB is free.",
         {"backend": "CUDA", "tried": 20 << 20, "device": 3, "free": 10 << 20},
         "torch c10/cuda/CUDACachingAllocator.cpp"), read=_memory),
    Rule("error", "torch.cuda_error",
         r"(?m)(?:CUDA|HIP) (?:[Ee]rror|failure)(?: \d+)?: (?P<error>[^\r\n]*?)(?:\.\s|\.?$|, | at /)"
         r"|cuda runtime error \(\d{1,4}\) ?: (?P<error_2>[^\r\n]*?)(?:$| at /)|(?P<error_3>CUDA_ERROR_(?:ECC"
         r"|NVLINK|HARDWARE|ILLEGAL|MISALIGNED|LAUNCH_FAILED|SYSTEM)\w{0,40}(?:: [^\r\n]{0,200})?)"
         r"|\b(?P<error_4>cudaError(?!NotReady|Success)[A-Z]\w{2,60}: [^\r\n]{4,200})"
         r"|CUDA driver error: (?P<error_5>[^\r\n]+)|\b(?P<error_6>(?:CUBLAS|CUDNN)_STATUS_\w+)"
         r"|\bError 80[234]: (?P<error_7>[^\r\n(]{8,160})"
         r"|(?P<error_8>CUDA driver version is insufficient for CUDA runtime version)",
         Example("RuntimeError: CUDA error: an illegal memory access was encountered",
         {"error": "an illegal memory access was encountered", "signature": "illegal_access"},
         "torch c10/cuda/CUDAException.cpp"), read=_error),
    Rule("rocm", "torch.cuda_error",
         r"(?P<error>HW Exception by GPU node-\d+ [^\r\n]*reason ?: ?GPU Hang"
         r"|Memory access fault by GPU node-\d{1,3}\b[^\r\n]{0,200})"
         r"|[Aa]borting with error ?: (?P<error_2>HSA_STATUS_ERROR\w{0,60}[^\r\n]{0,160})",
         Example("HW Exception by GPU node-9 (Agent handle: 0x63) reason :GPU Hang", {"signature": "gpu_lost"},
         "ROCR-Runtime core/runtime/runtime.cpp"), read=_error),
    Rule("device_assert", "torch.cuda_error",
         r"block: \[[\d,]{1,40}\], thread: \[[\d,]{1,40}\] Assertion [`']?(?P<error>[^\r\n]{1,300}?)['`]? failed",
         Example("/pytorch/aten/Indexing.cu:93: f: block: [0,0,0], thread: [7,0,0] Assertion `index < size` failed.",
         {"error": "assertion failed: index < size", "signature": "device_assert"}, "CUDA assert() in a kernel"),
         read=_asserted),
    Rule("nvml", "gpu.unseen",
         "Failed to initialize NVML: (?P<error>Unknown Error|could not load NVML library"
         r"|Driver/library version mismatch|GPU access blocked[^\r\n]{0,60})"
         r"|\b(?:NVML|nvml)\b[^\r\n]{0,80}: (?P<error_4>GPU is lost)\b"
         r"|Unable to determine the device handle for [Gg][Pp][Uu]\S{0,4} ?(?P<bus_id>[0-9a-fA-F:]{8,16})"
         r"[^\r\n:]{0,6}: (?P<error_5>[^\r\n]{1,80})"
         "|NVIDIA-SMI has failed because it (?P<error_2>couldn't communicate with the NVIDIA driver)"
         r"|^\s{0,4}(?P<error_3>No devices were found)\s{0,4}$",
         Example("Failed to initialize NVML: Driver/library version mismatch",
         {"error": "Driver/library version mismatch"}, "nvidia-smi")),
)  # fmt: skip
