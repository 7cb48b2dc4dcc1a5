"""The torch.distributed of this process, without an import of torch."""

from __future__ import annotations

import sys
from typing import Any, Optional


def distributed_now() -> Optional[Any]:
    """torch.distributed if it is imported and has a process group, else None. Imports nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed
