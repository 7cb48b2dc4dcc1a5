"""Questions on the terminal: an unknown host key, and whether to go on."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click
import pytest

from collectors.fleet.sink import HostKeyQuestion
from hangtop.cli.node_command import agree
from hangtop.cli.terminal import interrupted_cleanly, trusts


def host_key() -> Coroutine[Any, Any, bool | None]:
    return trusts(HostKeyQuestion("node1", "node1:22", "SHA256:abc"))


def go_on() -> Coroutine[Any, Any, None]:
    return agree("Go on?", yes=False)


@pytest.mark.parametrize(
    ("asks", "typed", "said"),
    [
        (host_key, b"yes\n", "True"), (host_key, b"y\n", "False"), (host_key, b"\n", "False"),
        (host_key, b"\x03", "ended"), (go_on, b"y\n", "None"), (go_on, b"\n", "Abort"), (go_on, b"\x03", "ended"),
    ],
)  # fmt: skip
def test_the_answer_that_is_typed_counts_and_one_ctrl_c_ends_it(
    asks: Callable[[], Coroutine[Any, Any, Any]], typed: bytes, said: str
) -> None:
    answered, answer = os.pipe()
    child, master = pty.fork()
    if child == 0:
        sys.stdin, found = os.fdopen(0), "failed"  # pytest has put another one there
        try:
            found = repr(interrupted_cleanly(asks()))
        except click.Abort:
            found = "Abort"
        except KeyboardInterrupt:
            found = "ended"
        finally:
            os.write(answer, found.encode())
            os._exit(0)
    os.close(answer)
    shown = b""
    while b"(yes/no)" not in shown and b"[y/N]" not in shown:
        shown += os.read(master, 1000)
    os.write(master, typed)
    assert os.read(answered, 1000).decode() == said
    os.waitpid(child, 0)
    os.close(master)
    os.close(answered)
