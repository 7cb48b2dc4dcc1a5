"""Frames of WebSocket (RFC 6455), as far as a server of the tests needs them."""

from __future__ import annotations

import asyncio

BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
"""Kinds of frames."""


def send(writer: asyncio.StreamWriter, kind: int, data: bytes) -> None:
    """Send one frame. Raises :class:`ConnectionResetError` where nobody is there any more."""
    if writer.is_closing():
        raise ConnectionResetError
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    writer.write(bytes([0x80 | kind]) + length + data)


async def frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One message of the client, put together of its parts."""
    whole = b""
    first = 0
    while True:
        head, size = await reader.readexactly(2)
        length = size & 0x7F
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2), "big")
        elif length == 127:
            length = int.from_bytes(await reader.readexactly(8), "big")
        mask = await reader.readexactly(4)
        data = await reader.readexactly(length)
        key = (mask * (length // 4 + 1))[:length]
        plain = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
        kind = head & 0x0F
        if kind in (CLOSE, PING, PONG):
            return kind, plain
        first = kind or first
        whole += plain
        if head & 0x80:
            return first, whole
