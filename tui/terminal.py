"""The terminal: it is rung once for each alarm, and within tmux has a clipboard of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hangtop.diagnosis.finding import Verdict

ALARM = frozenset({"hung", "crashed", "at_risk"})
"""Verdicts that ring."""


class Alarm:
    """Remembers which alarm was rung, so that one hang rings once."""

    def __init__(self) -> None:
        self._rung: tuple[object, ...] = ()

    def rings(self, verdict: Verdict | None) -> bool:
        """Whether the verdict is a new alarm. A healthy verdict between two hangs makes the next one new."""
        if verdict is None or verdict.outcome not in ALARM:
            if verdict is not None and verdict.outcome in {"healthy", "starting"}:
                self._rung = ()
            return False
        first = next(iter(verdict.findings), None)
        before, self._rung = self._rung, (verdict.outcome, first and first.kind, first and first.ranks)
        return self._rung != before


async def load_tmux_buffer(text: str, within: float = 3.0) -> None:
    """Put a text into tmux's buffer, and through it into the clipboard: by default tmux takes it from no program."""
    with suppress(OSError, TimeoutError):  # without tmux, or one that hangs, the terminal itself may have taken it
        process = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await asyncio.wait_for(process.communicate(text.encode("utf-8", "replace")), within)
        finally:
            if process.returncode is None:
                process.kill()
