"""What links give in practice: bus bandwidth of a large all_reduce, as nccl-tests define it, in GB/s (1e9 bytes).

Figures are what others published, not what data sheets promise; each names where it was read. They are for buffers of
:data:`LARGE` bytes and more: smaller ones are bound by latency.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LARGE = 256 << 20
"""Ours: from 256 MiB on the published curves of eight GPUs are within a tenth of their end."""
CLEARLY_UNDER = 0.6
"""Ours: of the expected. Published figures of one kind of machine differ by a tenth, those of tuned and untuned ones by
a third (230 to 160 GB/s of A100 and A800, nccl issue 412)."""
CLEARLY_UNDER_TCP = 0.3
"""Ours, for gloo and NCCL's sockets: the probe runs at the lowest priority beside whatever the nodes do."""


class Nvlink(NamedTuple):
    """One generation of GPUs on NVLink."""

    gpu: re.Pattern[str]
    """In nvidia-smi's name of the GPU."""
    title: str
    ranks: int
    """Least number of GPUs of one node for which the figure holds."""
    busbw: float
    source: str


NVLINK = (
    Nvlink(re.compile(r"\bV100-SXM"), "V100 over NVLink 2", 8, 120.0,
           "6 links of 25 GB/s, of which a ring gets 0.8; no published figure at hand"),
    Nvlink(re.compile(r"\bA800-SXM"), "A800 over NVLink 3", 8, 160.0, "NVIDIA/nccl issue 412"),
    Nvlink(re.compile(r"\bA100-SXM"), "A100 over NVLink 3", 8, 228.0,
           "Azure's node health checks, ND A100 v4 (232 in NVIDIA/nccl-tests issue 175)"),
    Nvlink(re.compile(r"\bH800\b(?!.*(?:PCIe|NVL))"), "H800 over NVLink 4", 8, 200.0,
           "NVIDIA/nccl issue 1374 (215 with NVLS)"),
    Nvlink(re.compile(r"\bH100\b(?!.*(?:PCIe|NVL))"), "H100 over NVLink 4", 8, 460.0,
           "Azure's node health checks, ND H100 v5"),
    Nvlink(re.compile(r"\bG?H200\b(?!.*(?:PCIe|NVL))"), "H200 over NVLink 4", 8, 432.0,
           "Azure's node health checks, ND H200 v5 (475 in NVIDIA/nccl-tests issue 272)"),
    Nvlink(re.compile(r"\bGB200\b"), "GB200 over NVLink 5", 4, 432.0, "Azure's node health checks, ND GB200 v6"),
    Nvlink(re.compile(r"\bB200\b"), "B200 over NVLink 5", 8, 800.0, "NVIDIA/nccl issue 1807 (830 measured)"),
)  # fmt: skip


class Card(NamedTuple):
    """One rate of a network card, by port."""

    rate: float
    """Gb/s, as sysfs gives it."""
    title: str
    busbw: float
    source: str


INFINIBAND = (
    Card(100.0, "EDR", 12.2, "NVIDIA/nccl-tests issue 29"),
    Card(200.0, "HDR", 24.0, "NVIDIA/nccl issues 412 and 1576 (8 cards: 192)"),
    Card(400.0, "NDR", 48.0, "NVIDIA/nccl-tests issue 267"),
    Card(800.0, "XDR", 96.0, "twice NDR; no published figure at hand"),
)
"""A port's share of the busbw of all ports; with in-network reduction or a tree of two nodes it may be more."""
ROCE_SHARE = 0.85
"""Of the line rate, for RoCE from 25 to 400 Gb/s: 75 GB/s of 8 × 100 Gb/s were "roughly" expected, "a little lower"
(NVIDIA/nccl issue 495), so a little over 0.75; Ethernet's and RoCE v2's headers leave 0.97 at an MTU of 4096."""
SOCKET_SHARE = 0.8
"""Ours: of the line rate, over NCCL's sockets."""
SOCKET_CEILING = 5.0
"""Ours, GB/s: what a few threads that copy through the kernel reach however fast the card is."""
GLOO_SHARE = 0.8
"""Ours: of the line rate; TCP's headers take 0.06 at an MTU of 1500, and sending and adding take turns."""
GLOO_CEILING = 0.8
"""Ours, GB/s: gloo copies and adds with one thread a rank; on loopback, where nothing else bounds it, one core of a
cloud machine reaches about that."""
WORTH_USING = 25.0
"""Gb/s: slower ports are for management."""
