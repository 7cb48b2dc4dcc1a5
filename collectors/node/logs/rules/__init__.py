"""All rules. A line gives at most one event per kind: that of the kind's first matching rule, in this order.

A new rule is one row in the file of its subject; its example is its test.
"""

from __future__ import annotations

from typing import Tuple

from collectors.node.logs.rule import Rule
from collectors.node.logs.rules import kernel, launchers, nccl, process, torch

RULES: Tuple[Rule, ...] = (*nccl.RULES, *torch.RULES, *launchers.RULES, *kernel.RULES, *process.RULES)
FALLBACK = "log.error"
"""The kind whose rules are tried only if a line gives no other event."""
ERRORS = ("python.exception", FALLBACK)
"""Kinds of errors without a specific rule."""
