"""All faults, by name: what pytest plays."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from tests.faults.fault import FAULTS, Fault

FAMILIES = ("network", "sshd", "shells", "limits", "stream", "endings", "screen")
"""Modules of this folder, in the order of the table."""


def faults() -> Mapping[str, Fault]:
    """Import every family; faults by ``family/name``."""
    for family in FAMILIES:
        importlib.import_module(f"tests.faults.{family}")
    return FAULTS
