"""What the NVIDIA driver's Xid codes mean, who is at fault, and what to do.

Codes, names and immediate actions follow NVIDIA's public Xid catalogue
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, codes 1 to 172); the meanings are in our words.
Codes of the display, video and security engines have no row.
A code's kind decides its place in a verdict: a *consequence* (43, 44, 45, 137) is never a root cause, an *application*
code accuses the program on that GPU first, a *hardware* code the GPU.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

XidKind = Literal["hardware", "driver", "application", "consequence", "info"]


class Xid(NamedTuple):
    """What a code means in one clause, whose fault that is, and what to do in one sentence."""

    kind: XidKind
    action: str
    meaning: str


ACTIONS = {
    "ecc": "Drain the node and reset the GPU; if it comes again, or a row remap fails, replace the GPU.",
    "follow": "Look for the error that came before it, on this GPU or on another rank.",
    "ignore": "Nothing to do by itself.",
    "mechanics": "Check power cables and slot of the GPU.",
    "nvlink": "Drain the node and reset all GPUs of the NVLink domain; if it comes again, check the link's hardware.",
    "reboot": "Drain the node and restart it (power cycle if the GPU stays away); replace the GPU if it comes again.",
    "report": "Restart the job; if it comes again, reset the GPU and send the vendor an nvidia-bug-report.sh.",
    "reset": "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the node.",
    "reset_soon": "The job may continue; reset the GPU at the next opportunity.",
    "restart": "Restart the job; if only one GPU ever shows it, suspect that GPU, else the program.",
    "watch": "The job may continue; watch whether it comes again.",
}

# fmt: off
_ROWS: tuple[tuple[tuple[int, ...], XidKind, str, str], ...] = (
    ((8,), "driver", "restart", "a command queue stayed idle past its time-out"),
    ((11, 69, 32, 80, 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "application", "restart",
     "a kernel or a copy asked for something that this GPU cannot do, or its commands were corrupted"),
    ((13,), "application", "restart",
     "a kernel faulted on the GPU: usually an access out of bounds or an illegal instruction"),
    ((14, 37, 38, 66, 67, 91, 93, 106, 107, 108, 141, 162, 163), "info", "ignore", "a message, not an error"),
    ((31,), "application", "restart", "a kernel touched an address that is not mapped (GPU page fault)"),
    ((43, 44), "consequence", "ignore", "the driver reset a channel after another error"),
    ((45, 137), "consequence", "follow", "channels were removed, or an access over NVLink refused, after an error"),
    ((48, 140, 171, 172), "hardware", "ecc", "a memory error that ECC could not correct"),
    ((54,), "hardware", "mechanics", "auxiliary power is missing or too weak: the GPU clocks down"),
    ((57, 58, 90, 122, 123, 124, 125), "hardware", "report", "a memory link, cache or the GPU's own storage failed"),
    ((63,), "info", "reset_soon", "a bad memory row was marked to be remapped; it takes effect at the next reset"),
    ((64,), "hardware", "reset", "a bad memory row could not be remapped"),
    ((74, 136, *range(144, 151), 155, 166, 170), "hardware", "nvlink", "an NVLink failed"),
    ((79, 167), "hardware", "reboot", "the GPU has fallen off the PCIe bus, or does not answer there"),
    ((92, 121, 156, 157, 160, 161, 164, 165, 168), "info", "watch",
     "corrected errors come unusually often, or a part of the GPU was retired"),
    ((94,), "hardware", "restart", "a memory error that could be contained to one application"),
    ((95,), "hardware", "reset", "a memory error that could not be contained: every process of this GPU is affected"),
    ((46, 62, 109, 110, 119, 120, 143, 158, 169), "hardware", "reset",
     "the GPU, or its system processor (GSP), failed or did not answer in time"),
    ((154,), "info", "follow", "the driver changed what it recommends for recovery: read the other Xid of this GPU"),
)
# fmt: on

XIDS = {code: Xid(kind, ACTIONS[action], meaning) for codes, kind, action, meaning in _ROWS for code in codes}
UNKNOWN = Xid("driver", ACTIONS["report"], "the driver met an error of its own")
"""For a code without a row."""
