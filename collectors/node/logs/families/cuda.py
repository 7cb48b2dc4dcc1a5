"""CUDA through torch: out of memory, errors of the device, kernels' assertions."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, Signature, number

_MEMORY = re.compile(
    r"(?P<backend>CUDA|HIP|XPU|MPS)(?: error:)? out of memory"
    r"|torch(?:\.cuda)?\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
    r"|RESOURCE_EXHAUSTED: [^\r\n]{0,80}(?:\bmemory\b|\ballocat)"
    r"|OOM when allocating tensor[^\r\n]{0,200}(?:GPU|gpu)|\(GPU_\d{1,2}_bfc\) ran out of memory trying to allocate"
    r"|NPU out of memory|\b(?:cuda|hip)Error(?:MemoryAllocation|OutOfMemory) ?\)?: out of memory"
)
"""The last are XLA's, TensorFlow's, torch_npu's, and those of programs that check each call, as Kokkos does."""
_TRIED = re.compile(
    r"Tried to allocate (?P<n>[\d.]+) (?P<u>[KMGT]?i?B)"
    r"|(?:trying|[Aa]ttempting) to allocate (?P<on>[\d.]+) ?(?P<ou>[KMGT]i?B|bytes|[KMGT]\b)"
)
_DEVICE = re.compile(
    r"GPU (?P<device>\d+) has a total capacity of (?P<n>[\d.]+) (?P<u>[KMGT]?i?B)"
    r"|\(GPU (?P<old>\d+); (?P<on>[\d.]+) (?P<ou>[KMGT]?i?B) total capacity"
)
_FREE = re.compile(r"of which (?P<n>[\d.]+) (?P<u>[KMGT]?i?B) is free|; (?P<on>[\d.]+) (?P<ou>[KMGT]?i?B) free")
_IN_USE = re.compile(
    r"this process has (?P<n>[\d.]+) (?P<u>[KMGT]?i?B) memory in use"
    r"|; (?P<on>[\d.]+) (?P<ou>[KMGT]?i?B) already allocated"
)
_ERROR = re.compile(
    r"(?m)(?:CUDA|HIP) (?:[Ee]rror|failure)(?: \d+)?: (?P<error>[^\r\n]*?)(?:\.\s|\.?$|, | at /)"
    r"|cuda runtime error \(\d{1,4}\) ?: (?P<old>[^\r\n]*?)(?:$| at /)"
    r"|(?P<code>CUDA_ERROR_(?:ECC|NVLINK|HARDWARE|ILLEGAL|MISALIGNED|LAUNCH_FAILED)\w{0,40}(?:: [^\r\n]{0,200})?)"
    r"|\berror ?\( ?(?P<checked>(?:cuda|hip)Error[A-Z]\w{2,60} ?\): [^\r\n]{4,200})"
    r"|\b(?P<runtime>cudaError(?!NotReady|Success)[A-Z]\w{2,60}: [^\r\n]{4,200})"
    r"|^\s{0,4}(?:[\w./]{1,80}: )?(?P<bare>CUDA driver version is insufficient for CUDA runtime version)\s{0,4}$"
    r"|CUDA driver error: (?P<driver>[^\r\n]*)|(?P<lib>(?:CUBLAS|CUDNN)_STATUS_\w+)"
)
_SAID = re.compile(
    r"(?P<error>an illegal (?:memory access|instruction) was encountered|unspecified launch failure\b"
    r"|the launch timed out and was terminated|uncorrectable (?:ECC|NVLink) error encountered)"
)
"""CUDA's own words for errors after which nothing runs on a GPU, in front of which a program has its own."""
_HUNG = re.compile(r"(?P<error>HW Exception by GPU node-\d+ [^\r\n]*reason ?: ?GPU Hang)")
_FAULT = re.compile(r"(?P<error>Memory access fault by GPU node-\d{1,3}\b[^\r\n]{0,200})")
_QUEUE = re.compile(
    r"(?:Queue 0x[0-9a-f]{1,16}|Device::callbackQueue) [Aa]borting with error ?: "
    r"(?P<error>HSA_STATUS_ERROR\w{0,60}[^\r\n]{0,160})"
)
"""ROCm's runtime, before it aborts the process."""
_ASSERT = re.compile(
    r"Assertion [`'](?P<what>.*?)['`] failed"
    r"|thread: \[[\d,]{1,40}\] Assertion (?P<bare>[^`'\s][^\r\n]{0,300}?) failed"
)
"""Web pages take the quotes away, for they mark what is code there."""

SIGNATURES: Tuple[Signature, ...] = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        ("device_assert", r"device-side assert"),
        ("illegal_access", r"illegal (?:memory access|address)|misaligned address"),
        ("nvlink", r"nvlink"),
        ("ecc", r"\becc\b|uncorrectable"),
        ("gpu_lost", r"gpu is lost|fallen off the bus|unrecoverable|device.*lost"),
        ("invalid_device", r"invalid device ordinal|no cuda-capable device"),
        ("busy", r"busy or unavailable"),
        ("launch_failure", r"launch failure|launch timed out|unspecified"),
        (
            "initialization",
            r"initialization error|driver version is insufficient|system not yet initialized|unknown error",
        ),
    )
)

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    memory = _MEMORY.search(text)
    if memory is not None:
        yield Said("torch.out_of_memory", _memory(text, memory.group("backend") or "CUDA"))
        return
    error = _ERROR.search(text)
    if error is not None:
        what = next((group for group in error.groups() if group), "").strip()
        if what:
            yield Said("torch.cuda_error", {"error": what, "signature": signature(what)})
        return
    queue = _QUEUE.search(text)
    if queue is not None:
        what = queue.group("error")
        access = "APERTURE" in what or "MEMORY_FAULT" in what
        yield Said("torch.cuda_error", {"error": what, "signature": "illegal_access" if access else "launch_failure"})
        return
    hung = _HUNG.search(text)
    if hung is not None:
        yield Said("torch.cuda_error", {"error": hung.group("error"), "signature": "gpu_lost"})
        return
    fault = _FAULT.search(text) or (_SAID.search(text) if "NCCL" not in text else None)
    if fault is not None:
        what = fault.group("error")
        told = "illegal_access" if what.startswith("Memory access fault") else signature(what)
        yield Said("torch.cuda_error", {"error": what, "signature": told})
        return
    kernel = _ASSERT.search(text) if ".cu:" in text or "block: [" in text else None
    if kernel is not None:
        what = "assertion failed: " + (kernel.group("what") or kernel.group("bare") or "")
        yield Said("torch.cuda_error", {"error": what, "signature": "device_assert"})


def signature(error: str) -> str:
    """What an error of CUDA means."""
    for name, pattern in SIGNATURES:
        if pattern.search(error):
            return name
    return "other"


def _memory(text: str, backend: str) -> Data:
    data: Data = {"backend": backend}
    for name, pattern in (("tried", _TRIED), ("capacity", _DEVICE), ("free", _FREE), ("in_use", _IN_USE)):
        match = pattern.search(text)
        if match is None:
            continue
        groups = match.groupdict()
        amount, unit = groups.get("n") or groups.get("on"), groups.get("u") or groups.get("ou")
        if amount and unit:
            data[name] = size(amount, unit)
        device = groups.get("device") or groups.get("old")
        if device and len(device) < 5:
            data["device"] = number(device)
    return data


def size(amount: str, unit: str) -> Optional[int]:
    """Bytes of an amount as torch prints it: "20.00 MiB"."""
    if amount.count(".") > 1 or amount == "." or len(amount) > 15:
        return None
    return int(float(amount) * _UNITS.get(unit[0], 1))


FAMILY = Family(
    "cuda",
    (
        b"out of memory",
        b"OutOfMemoryError",
        b"CUDA error",
        b"CUDA Error",
        b"HIP error",
        b"CUDA driver error",
        b"CUDA failure",
        b"cudaError",
        b"hipError",
        b"version is insufficient",
        b"cuda runtime error",
        b"CUDA_ERROR_",
        b"_STATUS_",
        b"Assertion ",
        b"HW Exception by GPU",
        b"borting with error",
        b"Memory access fault by GPU",
        b"an illegal ",
        b"launch failure",
        b"launch timed out",
        b" error encountered",
        b"RESOURCE_EXHAUSTED",
        b"OOM when allocating",
        b"ran out of memory",
    ),
    read,
)
