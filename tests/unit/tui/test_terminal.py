"""Without a terminal there is no screen; one alarm rings once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hangtop.diagnosis.finding import Verdict
from tests.support.screens import hung
from tui.terminal import Alarm

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the screen needs a terminal; hangtop triage and hangtop analyze answer in text"),
        (["--theme", "nosuch"], "no theme nosuch; there are "),
    ],
)
def test_without_a_terminal_or_its_theme_there_is_no_screen(words: list[str], why: str) -> None:
    done = subprocess.run(
        [*HANGTOP, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hangtop: {why}")
    assert not done.stdout


def test_a_hang_rings_once_and_again_after_the_job_was_healthy() -> None:
    alarm, healthy = Alarm(), Verdict("healthy", "all is well")
    told = [None, hung(), hung(), Verdict("waiting", "31 ranks wait"), hung(), healthy, hung(), hung(3)]
    assert [alarm.rings(verdict) for verdict in told] == [False, True, False, False, False, False, True, True]
