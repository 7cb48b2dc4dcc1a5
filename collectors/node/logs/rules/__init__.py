"""All rules. A line gives one event of each kind that a rule of the kind reads in it: the first of them, by this order.

A new rule is one row in the file of its subject; its example is its test.
"""

from __future__ import annotations

from typing import Tuple

from collectors.node.logs.rule import Rule
from collectors.node.logs.rules import cuda, kernel, launchers, nccl, process, schedulers, store, torch

RULES: Tuple[Rule, ...] = (
    *nccl.RULES, *torch.RULES, *store.RULES, *cuda.RULES, *launchers.RULES, *schedulers.RULES, *kernel.RULES,
    *process.RULES,
)  # fmt: skip
FALLBACK = "log.error"
"""The kind that is asked for only where a line gives no other."""
