"""Where this machine lets no further file be opened it is this machine that is named, with its limit, not the node."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.errors import explain
from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Refused, TransportError, os_reason
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import any_command


def dropped(_data: bytes) -> None:
    """Nothing comes of what has not started."""


@contextmanager
def none_left() -> Iterator[int]:
    """Every descriptor below a low limit is taken."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    limit = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir()) + 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield limit
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_words_for_each_limit() -> None:
    with none_left() as limit:
        said = os_reason(OSError(errno.EMFILE, "Too many open files"))
    assert f"on this machine: its limit (ulimit -n) is {limit}" in said
    assert "fs.file-max" in os_reason(OSError(errno.ENFILE, "Too many open files in system"))
    assert os_reason(OSError(errno.ENOEXEC, "Exec format error")) == "Exec format error"


async def test_a_way_is_tried_again_once_files_can_be_opened(tmp_path: Path) -> None:
    node = Piped(Target("node0", "node0"), any_command("sh -s %h"), asyncio.Semaphore(8))
    await node.connect()
    with none_left(), pytest.raises(TransportError, match=r"this machine: its limit \(ulimit -n\)") as failed:
        await node.start(["true"], on_stdout=dropped, on_stderr=dropped)
    assert not isinstance(failed.value, Refused)
    assert (await node.run(["true"])).status == 0
    await node.close()


def test_a_host_that_no_socket_was_left_for(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host gpu7\n  HostName gpu7.lab\n")
    settings = SshConfig(config).settings("gpu7", "me", None)
    said = str(explain(OSError(errno.EMFILE, "Too many open files"), settings))
    assert said.startswith("gpu7.lab port 22 was not asked: hangtop may open no further file on this machine")
