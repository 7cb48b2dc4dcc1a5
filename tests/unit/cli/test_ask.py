"""An unknown host key without a screen: asked about on the terminal."""

from __future__ import annotations

import os
import pty

import pytest

from collectors.fleet.sink import HostKeyQuestion
from hangtop.cli.terminal import ask_on_terminal, interrupted_cleanly


@pytest.mark.parametrize(
    ("typed", "said"), [(b"yes\n", "True"), (b"y\n", "False"), (b"\n", "False"), (b"\x03", "ended")]
)
def test_a_host_key_is_accepted_by_a_whole_word_and_ctrl_c_ends_at_once(typed: bytes, said: str) -> None:
    answered, answer = os.pipe()
    child, master = pty.fork()
    if child == 0:
        try:
            found = repr(interrupted_cleanly(ask_on_terminal(HostKeyQuestion("node1", "node1:22", "SHA256:abc"))))
        except KeyboardInterrupt:
            found = "ended"
        os.write(answer, found.encode())
        os._exit(0)
    os.close(answer)
    shown = b""
    while b"(yes/no)" not in shown:
        shown += os.read(master, 1000)
    os.write(master, typed)
    assert os.read(answered, 1000).decode() == said
    os.waitpid(child, 0)
    os.close(master)
    os.close(answered)
    assert b"SHA256:abc" in shown
