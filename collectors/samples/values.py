"""Values that samples of any kind hold."""

from __future__ import annotations

from typing import List, Union

Scalar = Union[str, int, float, bool, None]
Value = Union[Scalar, List[Scalar]]
