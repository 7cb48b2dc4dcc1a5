"""What drivers of GPUs say in the kernel's log of one that fails: NVIDIA's without an Xid, AMD's, Intel's, a Gaudi's.

``kernel.gpu`` has ``problem``, and ``bus_id`` or ``gpu`` where the line names it. Formats: ``amdgpu_device.c``,
``amdgpu_job.c``, ``xe_guc_submit.c``, ``xe_gt.c``, ``xe_device.c``, ``i915_gpu_error.c``, ``intel_reset.c``.
"""

from __future__ import annotations

from typing import Optional, Pattern, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Said

_NVIDIA: Tuple[Tuple[str, "Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "gsp_timeout",
            (
                r"GSP.{0,80}?(?:[Tt]ime(?:d )?out|[Hh]eartbeat)|[Tt]ime(?:d )?out.{0,80}?\bGSP\b"
                r"|sanity check failed.{0,40}?waiting for RPC|\bRPC (?:event )?history \(CPU "
            ),
        ),
        (
            "init_failed",
            (
                r"No NVIDIA graphics adapter found|NVIDIA init module failed"
                r"|RmInitAdapter failed|rm_init_adapter failed|[Cc]annot initialize GSP"
                r"|region assigned to your NVIDIA device is invalid|failed to copy vbios"
            ),
        ),
        ("needs_reset", r"NV_ERR_RESET_REQUIRED|Assertion failed: Reset required"),
        ("locked", r"GPU is probably locked"),
        ("bad_register", r"[Pp]ossible bad register read|GPU (?:is |has been )?lost\b|[Ll]ost GPU|NV_ERR_GPU_IS_LOST"),
    )
)
"""What the driver says of a GPU without an Xid."""
_BUS = re.compile(r"\b([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\b")
_NUMBERED = re.compile(r"\bGPU ?(\d{1,2})\b(?!:)")
_AMD: Tuple[Tuple[str, "Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        ("amd_memory", r"uncorrectable hardware error|poison (?:is )?(?:consumed|created)|uncorrectable ecc"),
        ("amd_lost", r"(?:device|gpu) (?:is )?lost from bus|bus lost"),
        ("amd_shader", r"sq_intr: error"),
        ("amd_page_fault", r"VM_L2_PROTECTION_FAULT_STATUS|no-retry page fault"),
        (
            "amd_reset",
            (
                r"gpu reset(?:\(\d{1,9}\))?(?: begin| succeeded| failed|!?\s{0,4}$)|ring \S{1,40} timeout|job_timedout"
                r"|gpu hang|MES(?:\(\d\))? failed to respond to msg=|\bring \S{1,20} test failed|VRAM is lost"
            ),
        ),
    )
)
"""What AMD's driver says of a GPU."""
_INTEL: Tuple[Tuple[str, "Pattern[str]"], ...] = (
    (
        "intel_lost",
        re.compile(r"declared device \S{1,20} as wedged|device wedged|GPU is wedged|recovery timed out, cancell"),
    ),
    (
        "intel_reset",
        re.compile(
            r"\bTimedout job: |\bEngine (?:memory CAT error|reset): |trying reset from "
            r"|\breset (?:queued|started|failed)\b|GPU HANG: ecode"
            r"|\bResetting (?:chip|\w{2,6}) for (?:stopped heartbeat|preemption time out|CS error|no heartbeat)"
        ),
    ),
)
"""What Intel's drivers, i915 and xe, say of a GPU."""
_HABANA: Tuple[Tuple[str, "Pattern[str]"], ...] = (
    ("habana_lost", re.compile(r"PCI link is lost|[Ff]ailed to (?:hard )?reset device|device is in an unknown state")),
    ("habana_reset", re.compile(r"[Dd]evice heartbeat failed|[Gg]oing to (?:hard[- ])?reset device")),
)
"""What Intel's driver says of a Gaudi."""
_OF_INTEL = re.compile(r"\b(?:xe|i915) [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]: ")
_DRIVERS = (("NVRM: ", _NVIDIA), ("amdgpu", _AMD), ("habanalabs", _HABANA))
STEMS = (b"NVRM: ", b"amdgpu", b"habanalabs", b"xe 0", b"i915 0")


def said(text: str) -> Tuple[bool, Optional[Said]]:
    """Whether a driver of GPUs wrote the line, and the event, None where it says nothing that matters."""
    for name, words in _DRIVERS:
        if name in text:
            return True, _told(text, words)
    if _OF_INTEL.search(text):
        return True, _told(text, _INTEL)
    return False, None


def bus_id(text: str) -> str:
    """A PCI address as ``0000:5f:00``: domain of four digits, lower case, no function."""
    parts = text.strip().lower().split(".")[0].split(":")
    if len(parts) == 2:
        parts.insert(0, "0000")
    if len(parts) >= 3:
        parts[0] = parts[0][-4:].rjust(4, "0")
    return ":".join(parts[:3])


def _told(text: str, words: "Tuple[Tuple[str, Pattern[str]], ...]") -> Optional[Said]:
    for problem, pattern in words:
        if pattern.search(text):
            data: Data = {"problem": problem}
            bus, index = _BUS.search(text), _NUMBERED.search(text)
            if bus is not None:
                data["bus_id"] = bus_id(bus.group(1))
            if index is not None:
                data["gpu"] = int(index.group(1))
            return Said("kernel.gpu", data)
    return None
