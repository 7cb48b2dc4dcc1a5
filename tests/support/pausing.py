"""A command's output is held back and let go again, and it ends: the same of every transport."""

from __future__ import annotations

import asyncio

from collectors.fleet.transport import LinkTransport, StreamProcess


async def paused_and_ended(node: LinkTransport) -> StreamProcess:
    """Have ``cat`` say something before a pause, in it and after it; gives the process, which has ended."""
    out: asyncio.Queue[bytes] = asyncio.Queue()
    process = await node.start(["cat"], on_stdout=out.put_nowait, on_stderr=print)
    process.write(b"one\n")
    assert await out.get() == b"one\n"
    process.pause()
    process.write(b"two\n")
    await node.run(["true"])  # a round trip: what cat says is here by now
    assert out.empty()
    process.resume()
    assert await out.get() == b"two\n"
    process.write_eof()
    assert await process.wait() == 0
    process.write(b"to nobody")
    process.write_eof()
    process.pause()
    process.resume()
    return process
