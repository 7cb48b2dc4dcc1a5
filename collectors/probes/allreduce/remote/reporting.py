"""Reports of a worker's processes: one line a report, ``[kind, {…}]``, read by ``allreduce/reports.py``."""

from __future__ import annotations

import json
import os
from typing import Any


def report(kind: str, **fields: Any) -> None:
    """Write one line; short enough to be written at once, so that several processes can share the channel."""
    os.write(1, (json.dumps([kind, fields], ensure_ascii=True) + "\n").encode("ascii"))
