"""What the NVIDIA driver's Xid codes mean, who is at fault, and what to do.

Codes, names and immediate actions follow NVIDIA's public Xid catalogue
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, codes 1 to 172); the meanings are in our words.
A code's kind decides its place in a verdict: a *consequence* (43, 44, 45, 137) is never a root cause, an *application*
code accuses the program on that GPU first, a *hardware* code the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

XidKind = Literal["hardware", "driver", "application", "consequence", "info"]


@dataclass(frozen=True, slots=True)
class Xid:
    """One code: what happened in one clause, whose fault it is, and what to do in one sentence."""

    code: int
    kind: XidKind
    meaning: str
    action: str


ACTIONS = {
    "ecc": "Drain the node and reset the GPU; if it comes again, or a row remap fails, replace the GPU.",
    "follow": "Look for the error that came before it, on this GPU or on another rank.",
    "ignore": "Nothing to do by itself.",
    "mechanics": "Check power cables and slot of the GPU.",
    "nvlink": "Drain the node and reset all GPUs of the NVLink domain; if it comes again, check the link's hardware.",
    "reboot": "Drain the node and restart it (power cycle if the GPU stays away); replace the GPU if it comes again.",
    "report": "Restart the job; if it comes again, reset the GPU and send the vendor an nvidia-bug-report.sh.",
    "reset": "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the node.",
    "reset_soon": "The job may go on; reset the GPU at the next chance.",
    "restart": "Restart the job; if only one GPU ever shows it, suspect that GPU, else the program.",
    "update": "Update driver and firmware to versions that fit each other.",
    "watch": "The job may go on; watch whether it comes again.",
}

# fmt: off
_ROWS: tuple[tuple[tuple[int, ...], XidKind, str, str], ...] = (
    ((1, 2, 3, 4, 5, 6, 7), "driver", "report", "a command queue was given something that it could not carry out"),
    ((8,), "driver", "restart", "a command queue stayed idle past its time-out"),
    ((9, 10, 12, 23, 24, 26, 30), "driver", "report", "the graphics engine or its queue was left in a bad state"),
    ((11,), "application", "restart", "a kernel asked for something that this GPU does not have"),
    ((13,), "application", "restart",
     "a kernel faulted on the GPU: usually an access out of bounds or an illegal instruction"),
    ((14,), "info", "ignore", "a test of the error path, not an error"),
    ((15, 16, 19, 56, 112, 113, 114, 115, 116, 117, 118), "driver", "report",
     "the display engine failed; a compute node has none in use"),
    ((17, 18), "driver", "report", "the GPU could not reach host memory in the way that it was told to"),
    ((20, 21, 22, 27, 28, 29, 33, 34, 35, 36, 42, 138), "driver", "report", "a media or security engine failed"),
    ((25,), "application", "restart", "a kernel signalled in a way that is not allowed"),
    ((31,), "application", "restart", "a kernel touched an address that is not mapped (GPU page fault)"),
    ((32,), "application", "restart", "the GPU read a corrupted command stream"),
    ((37, 66, 67), "info", "ignore", "the context-switch firmware met a request that it does not know; harmless"),
    ((38,), "info", "ignore", "the context-switch firmware was slow; read it together with other lines"),
    ((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135),
     "application", "restart", "a copy engine faulted: a transfer to or from the GPU went wrong"),
    ((43,), "consequence", "ignore", "the driver reset a channel after an error of the application or of another rank"),
    ((44,), "consequence", "ignore", "a fault came while contexts were switched: it follows another error"),
    ((45,), "consequence", "follow",
     "channels were removed because the process was killed or another error came first"),
    ((46,), "hardware", "reset", "the GPU stopped answering the driver"),
    ((47, 65, 73, 142), "driver", "report", "the video encoder failed"),
    ((48,), "hardware", "ecc", "a double-bit memory error that ECC could not correct"),
    ((49, 50, 51, 52, 53, 55), "driver", "report",
     "the driver changed the clock because of a temperature or a self test"),
    ((54,), "hardware", "mechanics", "auxiliary power is missing or too weak: the GPU clocks down"),
    ((57,), "hardware", "report", "the memory link could not be trained"),
    ((58,), "hardware", "report", "the memory controller reported an error"),
    ((59, 61), "driver", "report", "the power management unit met an internal error"),
    ((60,), "application", "restart", "the security engine faulted"),
    ((62,), "hardware", "reset", "the power management unit halted"),
    ((63,), "hardware", "reset_soon", "a bad memory row was marked to be remapped; it takes effect at the next reset"),
    ((64,), "hardware", "reset", "a bad memory row could not be remapped"),
    ((68, 82, 83, 84, 86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 139), "application", "restart",
     "a video, JPEG or optical-flow engine faulted"),
    ((69,), "application", "restart", "a kernel used a hardware class wrongly"),
    ((74,), "hardware", "nvlink", "an NVLink failed"),
    ((78,), "driver", "update", "a virtual GPU could not start: driver versions do not fit"),
    ((79,), "hardware", "reboot", "the GPU has fallen off the PCIe bus"),
    ((80,), "application", "restart", "a command stream arrived corrupted"),
    ((81, 87, 111), "driver", "report", "the driver met an error that it only reports"),
    ((90,), "hardware", "report", "the level-two cache reported an error"),
    ((91,), "info", "ignore", "reserved"),
    ((92,), "hardware", "watch", "single-bit memory errors come unusually often"),
    ((93,), "info", "ignore", "the GPU's own record storage was written too often"),
    ((94,), "hardware", "restart", "a memory error that could be contained to one application"),
    ((95,), "hardware", "reset", "a memory error that could not be contained: every process of this GPU is affected"),
    ((106, 107), "info", "ignore", "a test message of the management bus"),
    ((108,), "info", "ignore", "a translation over NVLink failed on the far side"),
    ((109,), "hardware", "reset", "a context switch timed out: the GPU is stuck"),
    ((110,), "hardware", "reset", "the security engine faulted"),
    ((119,), "hardware", "reset", "the GPU's system processor (GSP) did not answer the driver in time"),
    ((120,), "hardware", "reset", "the GPU's system processor (GSP) failed"),
    ((121,), "hardware", "watch", "the chip-to-chip link corrected errors"),
    ((122, 123, 124), "hardware", "report", "the GPU's flash memory could not be read or written"),
    ((125,), "hardware", "report", "the GPU's own record storage is damaged"),
    ((136,), "hardware", "reset", "an NVLink could not be trained"),
    ((137,), "consequence", "ignore", "an access over NVLink was refused: usually the far side's fault"),
    ((140,), "hardware", "reset", "an uncorrectable memory error escaped containment"),
    ((141,), "info", "ignore", "a fast error path was taken"),
    ((143,), "hardware", "reset", "the GPU could not be initialised"),
    ((144,), "hardware", "nvlink", "NVLink 5: the traffic and switch interface failed"),
    ((145,), "hardware", "nvlink", "NVLink 5: the link's reliability layer failed"),
    ((146,), "hardware", "nvlink", "NVLink 5: the transaction layer failed"),
    ((147,), "hardware", "nvlink", "NVLink 5: the link's test and repair unit failed"),
    ((148,), "hardware", "nvlink", "NVLink 5: the link controller failed"),
    ((149,), "hardware", "nvlink",
     "NVLink 5: the network interface of the link failed, often the cable or the far end"),
    ((150,), "hardware", "nvlink", "NVLink 5: the link's management engine failed"),
    ((151,), "driver", "reboot", "encryption keys could not be rotated: the virtual machine must restart"),
    ((152, 153), "driver", "ignore", "the deep-learning accelerator unit faulted"),
    ((154,), "info", "follow", "the driver changed what it recommends for recovery: read the other Xid of this GPU"),
    ((155,), "hardware", "reset", "NVLink was declared failed by the driver"),
    ((156,), "hardware", "reset", "a part of the GPU was retired; it takes effect at reset"),
    ((157,), "hardware", "watch", "a part of the GPU could not be retired"),
    ((158,), "hardware", "reset", "the GPU met a fatal time-out"),
    ((159,), "driver", "report", "a coherent access to host memory failed"),
    ((160,), "hardware", "watch", "a memory channel was retired"),
    ((161,), "hardware", "watch", "a memory channel could not be retired"),
    ((162, 163), "info", "ignore", "power smoothing was switched on or off"),
    ((164, 165), "hardware", "watch", "the power smoothing hardware nears or has reached the end of its life"),
    ((166, 170), "hardware", "nvlink", "a secured NVLink reported an error"),
    ((167,), "hardware", "reboot", "PCIe met a fatal time-out"),
    ((168,), "hardware", "watch", "the GPU came up with less memory than it should have"),
    ((169,), "hardware", "reset", "the security processor halted"),
    ((171,), "hardware", "reset", "uncorrectable error in the GPU's DRAM"),
    ((172,), "hardware", "reset", "uncorrectable error in the GPU's SRAM"),
)
# fmt: on

XIDS = {code: Xid(code, kind, meaning, ACTIONS[action]) for codes, kind, action, meaning in _ROWS for code in codes}


def xid(code: int) -> Xid:
    """Look a code up; one that the catalogue does not have is reported as the driver's, with that said."""
    return XIDS.get(code) or Xid(code, "driver", "a code that this table does not know", ACTIONS["report"])
