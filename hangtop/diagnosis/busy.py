"""Busy or blocked: what the cores that a process or a thread uses say of it."""

from __future__ import annotations

from hangtop.diagnosis.tables.thresholds import BUSY_CORES, IDLE_CORES


def is_busy(cores: float) -> bool:
    """It computes, or polls, most of the time."""
    return cores >= BUSY_CORES


def is_blocked(cores: float) -> bool:
    """It uses its CPU for no more than waking now and then."""
    return cores <= IDLE_CORES
