"""Who answers a connection's questions without a screen."""

from __future__ import annotations

import io
import os
import pty
import termios
import threading

import pytest

from collectors.fleet.ssh.asking import Question
from hangtop.cli.terminal import NobodyAsker, TerminalAsker, asker, interrupted_cleanly

HOST_KEY = Question("node1", "host_key", "accept ED25519 SHA256:abc?", "The host key is not known.", secret=False)
PASSWORD = Question("node1", "password", "root's password:")


async def test_nobody_declines_and_says_so_once_a_node_and_question() -> None:
    said = io.StringIO()
    nobody = NobodyAsker("--batch asks nobody", said)
    assert [await nobody.ask(HOST_KEY), await nobody.ask(HOST_KEY), await nobody.ask(PASSWORD)] == [None] * 3
    assert said.getvalue().splitlines() == [
        "hangtop: node1: the host key is not known (--batch asks nobody)",
        "hangtop: node1: wants an answer: root's password: (--batch asks nobody)",
    ]


def test_batch_and_no_terminal_ask_nobody() -> None:
    assert isinstance(asker(batch=True), NobodyAsker)


def _ends(question: Question) -> str:
    """What comes of a question during which somebody presses Ctrl-C, and whether the terminal shows what is typed."""
    try:
        return repr(interrupted_cleanly(TerminalAsker().ask(question)))
    except KeyboardInterrupt:
        return f"ended, echo {bool(termios.tcgetattr(0)[3] & termios.ECHO)}"


def _on_a_terminal(question: str, typed: bytes) -> tuple[str, bytes]:
    """Ask in a child that has a terminal of its own; returns what it answered and what its terminal showed."""
    answered, answer = os.pipe()
    child, master = pty.fork()
    if child == 0:
        found = _ends(HOST_KEY if question == "host_key" else PASSWORD)
        os.write(answer, found.encode())
        os._exit(0)
    os.close(answer)
    shown = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(master, 1000)
            except OSError:
                return
            if not data:
                return
            shown.extend(data)
            if b"(yes/once/no)" in shown or b"password:" in shown:
                while pending:
                    os.write(master, pending.pop())

    pending = [typed]
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    found = os.read(answered, 1000).decode()
    os.waitpid(child, 0)
    reader.join(5)
    os.close(master)
    os.close(answered)
    return found, bytes(shown)


def test_a_host_key_is_accepted_by_a_whole_word() -> None:
    found, shown = _on_a_terminal("host_key", b"yes\n")
    assert found == "'yes'"
    assert b"SHA256:abc" in shown
    assert _on_a_terminal("host_key", b"once\n")[0] == "'once'"
    assert _on_a_terminal("host_key", b"\n")[0] == "None"


def test_a_secret_is_not_shown() -> None:
    found, shown = _on_a_terminal("password", b"hunter2\n")
    assert found == "'hunter2'"
    assert b"hunter2" not in shown


@pytest.mark.parametrize("question", ["host_key", "password"])
def test_ctrl_c_at_a_question_ends_at_once_and_gives_the_terminal_back(question: str) -> None:
    found, _ = _on_a_terminal(question, b"\x03")
    assert found == "ended, echo True"
