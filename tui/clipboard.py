"""Copying within tmux, which by default takes nothing from programs: neither for the clipboard nor for its buffers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

WITHIN = 3.0
"""Seconds that it may take."""


async def load_buffer(text: str) -> bool:
    """Put a text into tmux's buffer, and through it into the clipboard where tmux can; False where that failed."""
    for more in (["-w"], []):  # tmux before 3.2 knows no -w
        with suppress(OSError, TimeoutError):
            process = await asyncio.create_subprocess_exec(
                "tmux", "load-buffer", *more, "-",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await asyncio.wait_for(process.communicate(text.encode("utf-8", "replace")), WITHIN)
            finally:
                if process.returncode is None:
                    process.kill()
            if process.returncode == 0:
                return True
    return False
