"""Output of a command, kept up to a limit."""

from __future__ import annotations


class Collected:
    """Bytes that come in pieces; those over the limit are counted and let go."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._parts: list[bytes] = []
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Keep as much of it as fits."""
        kept = data[: self._left]
        self._left -= len(kept)
        self.dropped += len(data) - len(kept)
        self._parts.append(bytes(kept))

    def value(self) -> bytes:
        """Everything that was kept."""
        return b"".join(self._parts)
