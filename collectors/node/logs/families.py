"""The families of lines that the parser knows. A new family is one file and one line here."""

from __future__ import annotations

from typing import Tuple

from collectors.node.logs import (
    cuda,
    ddp,
    elastic,
    endings,
    fatal,
    gloo,
    hccl,
    kernel,
    launchers,
    mismatch,
    nccl,
    store,
    watchdog,
    workers,
)
from collectors.node.logs.said import Family

FAMILIES: Tuple[Family, ...] = (
    nccl.FAMILY,
    watchdog.FAMILY,
    mismatch.FAMILY,
    ddp.FAMILY,
    store.FAMILY,
    gloo.FAMILY,
    hccl.FAMILY,
    cuda.FAMILY,
    workers.FAMILY,
    elastic.FAMILY,
    fatal.FAMILY,
    launchers.FAMILY,
    kernel.FAMILY,
    endings.FAMILY,
)
