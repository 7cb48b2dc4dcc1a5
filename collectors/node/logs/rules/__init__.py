"""All rules. A line gives one event of each kind that a rule of the kind reads in it: the first of them, by this order.

A new rule is one row in the file of its subject; its example is its test.
"""

from __future__ import annotations

from typing import Tuple

from collectors.node.logs.rule import Rule
from collectors.node.logs.rules import kernel, launchers, nccl, process, torch

RULES: Tuple[Rule, ...] = (*nccl.RULES, *torch.RULES, *launchers.RULES, *kernel.RULES, *process.RULES)
FALLBACK = "log.error"
"""The kind that is asked for only where a line gives no other."""
ERRORS = ("python.exception", FALLBACK)
"""Kinds of errors that no rule knows by name."""
