"""What is said before something runs on nodes."""

from __future__ import annotations

import os
import pty
import select
import sys
import time

import pytest

from hangtop.cli.consent import confirm
from tests.support.jobs import Sketch


def test_the_command_is_shown_with_its_nodes_and_not_where_none_can_be_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = Sketch().job()
    confirm("probe it", ["node9", "node8"], job, yes=True)
    assert capsys.readouterr().err == "on node8, node9: probe it\n"
    confirm("probe it", [], job, yes=True)
    assert capsys.readouterr().err == ""


ASKS = """
import asyncio, click
from hangtop.cli.consent import ask

async def asked():
    ask("Go on?", yes=False)

try:
    asyncio.run(asked())
    print("yes")
except click.Abort:
    print("abort")
"""


@pytest.mark.parametrize(
    ("typed", "ends"), [(b"\x03", b"abort\r\n"), (b"n\n", b"nothing was done\r\nabort\r\n"), (b"y\n", b"yes\r\n")]
)
def test_one_ctrl_c_is_enough_at_a_question_within_a_loop(typed: bytes, ends: bytes) -> None:
    child, master = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASKS])
    shown = b""
    while not shown.endswith(ends) and select.select([master], [], [], 90)[0]:
        try:
            shown += os.read(master, 1000)
        except OSError:
            break
        if typed and shown.endswith(b"[y/N]: "):
            time.sleep(0.5)  # no person is so quick that Python does not read yet: a signal would only be noted then
            os.write(master, typed)
            typed = b""
    os.close(master)
    os.waitpid(child, 0)
    assert shown.endswith(ends), shown
