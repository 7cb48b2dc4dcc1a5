"""This machine as a node behaves like one that is reached over SSH."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError


async def test_no_shell_reads_its_words() -> None:
    node = Local("here")
    assert (await node.run(["printf", "%s", "a b'\"$(x)"])).stdout == b"a b'\"$(x)"
    with pytest.raises(TransportError, match="here: / cannot be started"):
        await node.run(["/"])


async def test_streams_end_with_the_node() -> None:
    node = Local("here")
    out: asyncio.Queue[bytes] = asyncio.Queue()
    process = await node.start([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
                               on_stdout=out.put_nowait, on_stderr=print)  # fmt: skip
    assert (await out.get()).startswith(b"up")
    process.pause()
    process.resume()
    await node.close()
    assert await process.wait() == -9
    process.write(b"to nobody")
    process.write_eof()
    process.kill()


async def test_killing_what_has_ended_leaves_its_status_to_asyncio(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    may_look = threading.Event()
    if hasattr(asyncio, "ThreadedChildWatcher"):  # as on a machine where its thread comes late
        watcher: Any = asyncio.ThreadedChildWatcher
        waiting = watcher._do_waitpid

        def late(*arguments: object) -> None:
            may_look.wait()
            waiting(*arguments)

        monkeypatch.setattr(watcher, "_do_waitpid", late)
    node = Local("here")
    out: asyncio.Queue[bytes] = asyncio.Queue()
    process = await node.start(["sh", "-c", "echo $$; exit 5"], on_stdout=out.put_nowait, on_stderr=print)
    os.waitid(os.P_PID, int(await out.get()), os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 (asyncio shall not notice)
    process.kill()
    may_look.set()
    assert await process.wait() == 5
    assert not caplog.records
