"""CUDA and HIP through torch or by themselves: out of memory, errors of the device, a GPU that is not seen."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule

_NO_SUCH_GPU = re.compile(r"(?i)invalid device ordinal|no cuda-capable device")


def _error(_: "Match[str]", data: Data) -> Optional[Data]:
    """With what the error means: a GPU that the rank does not have, or any other."""
    what = str(data.get("error", ""))
    meaning = "invalid_device" if _NO_SUCH_GPU.search(what) else "other"
    return dict(data, signature=meaning) if what else None


RULES = (
    Rule("torch.out_of_memory", "out of memory|OutOfMemoryError|STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED",
         r"(?:(?:CUDA|HIP)(?: error:)? out of memory|torch(?:\.cuda)?\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
         r"|RESOURCE_EXHAUSTED: [^\r\n]{0,80}(?:\bmemory\b|\ballocat)"
         r"|\b(?:cuda|hip)Error(?:MemoryAllocation|OutOfMemory) ?\)?: out of memory)"
         r"(?:[^\n]{0,80}?[Tt]ried to allocate (?P<asked>[\d.]{1,12} [KMGT]?i?B))?",
         Example("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity",
                 {"asked": "20.00 MiB"}, "torch c10/cuda/CUDACachingAllocator.cpp")),
    Rule("torch.cuda_error", "CUDA error|CUDA Error|CUDA failure|HIP error|HIP failure|CUDA_ERROR_|cudaError|CUDA"
         " driver|CUBLAS_STATUS_|CUDNN_STATUS_|system not yet|system has unsupp|forward compat",
         r"(?m)(?:CUDA [Ee]rror|HIP error|(?:CUDA|HIP) failure)(?: \d+)?: (?!out of memory)(?P<error>[^\r\n]*?)(?:\.\s"
         r"|\.?$|, | at /)|(?P<error_2>CUDA_ERROR_(?:ECC|NVLINK|HARDWARE|ILLEGAL|MISALIGNED|LAUNCH_FAILED"
         r"|SYSTEM)\w{0,40}(?:: [^\r\n]{0,200})?)|\b(?P<error_3>cudaError(?!NotReady|Success|MemoryAll)[A-Z]\w{2,60}: "
         r"[^\r\n]{4,200})|CUDA driver error: (?P<error_4>[^\r\n]+)|\b(?P<error_5>(?:CUBLAS|CUDNN)_STATUS_"
         r"(?!ALLOC_FAILED)\w+)|\bError 80[234]: (?P<error_6>(?:system not yet|system has unsupp|forward compat)[^\r\n"
         r"(]{4,160})|(?P<error_7>CUDA driver version is insufficient for CUDA runtime version)",
         Example("RuntimeError: CUDA error: an illegal memory access was encountered",
                 {"error": "an illegal memory access was encountered", "signature": "other"},
                 "torch c10/cuda/CUDAException.cpp"), read=_error),
    Rule("torch.cuda_error", "HW Exception by GPU|Memory access fault by GPU|HSA_STATUS_ERROR",
         r"(?P<error>HW Exception by GPU node-\d+ [^\r\n]*reason ?: ?GPU Hang|Memory access fault by GPU "
         r"node-\d{1,3}\b[^\r\n]{0,200})|[Aa]borting with error ?: (?P<error_2>HSA_STATUS_ERROR\w{0,60}[^\r\n]{0,160})",
         Example("HW Exception by GPU node-9 (Agent handle: 0x63) reason :GPU Hang", {"signature": "other"},
                 "ROCR-Runtime core/runtime/runtime.cpp"), read=_error),
    Rule("torch.cuda_error", "], thread: [",
         r"block: \[[\d,]{1,40}\], thread: \[[\d,]{1,40}\] (?P<error>Assertion [`']?[^\r\n]{1,300}?['`]? failed)",
         Example("block: [0,0,0], thread: [7,0,0] Assertion `index < size` failed",
                 {"error": "Assertion `index < size` failed"}, "CUDA assert() in a kernel"), read=_error),
    Rule("gpu.unseen", "NVML|determine the device handle|NVIDIA-SMI has failed|No devices were found",
         r"Failed to initialize NVML: (?P<error>Unknown Error|could not load NVML library|Driver/library version "
         r"mismatch|GPU access blocked[^\r\n]{0,60})|\bNVML\b[^\r\n]{0,80}: (?P<error_2>GPU is lost)\b|Unable to "
         r"determine the device handle for [Gg][Pp][Uu]\S{0,4} ?(?P<bus_id>[0-9a-fA-F:]{8,16})[^\r\n:]{0,6}: "
         r"(?P<error_3>[^\r\n]{1,80})|NVIDIA-SMI has failed because it (?P<error_4>couldn't communicate with the NVIDIA"
         r" driver)|^\s{0,4}(?P<error_5>No devices were found)\s{0,4}$",
         Example("Failed to initialize NVML: Driver/library version mismatch",
                 {"error": "Driver/library version mismatch"}, "nvidia-smi")),
)  # fmt: skip
