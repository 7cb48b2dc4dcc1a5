"""Values that samples of any kind hold."""

from __future__ import annotations

from typing import List, Union

Scalar = Union[str, int, float, bool, None]
Value = Union[Scalar, List[Scalar]]

MOST_RANK = 1 << 20
"""Ours: no rank has a higher number, and no job more ranks. What a log says beyond is none, and would fill memory."""
MOST_PID = 1 << 32
