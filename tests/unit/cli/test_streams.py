"""Whoever starts hangtop with closed standard streams gets its exit code, and no fault."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

HANGTOP = shlex.join([sys.executable, "-c", "from hangtop.cli.main import main; main()"])
CLOSED = [" ".join(closed) for many in (1, 2, 3) for closed in itertools.combinations(("<&-", ">&-", "2>&-"), many)]


def ran(words: str, closed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"{HANGTOP} {words} {closed}"], capture_output=True, text=True, timeout=180, check=False
    )


@pytest.mark.parametrize("closed", CLOSED)
def test_an_answer_is_told_by_what_is_open_and_by_the_exit_code(closed: str, tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nValueError: bad shard\n'
    )
    done = ran(f"analyze {tmp_path}", closed)
    assert done.returncode == 1
    assert ("bad shard" in done.stdout) is (">&-" not in closed.split())
    assert done.stderr == ""


@pytest.mark.parametrize("closed", CLOSED)
def test_the_screen_says_that_it_needs_a_terminal(closed: str) -> None:
    done = ran("watch", closed)
    assert done.returncode == 2
    assert done.stdout == ""
    assert ("needs a terminal" in done.stderr) is ("2>&-" not in closed)


def test_no_file_that_is_opened_later_takes_their_place() -> None:
    code = (
        "import os; from hangtop.cli.streams import fill_closed; fill_closed(); "
        "kept = [os.path.samestat(os.fstat(number), os.stat(os.devnull)) for number in range(3)]; "
        "os._exit(0 if all(kept) and os.open('/', os.O_RDONLY) > 2 else 9)"
    )
    done = subprocess.run(["sh", "-c", f"{shlex.join([sys.executable, '-c', code])} <&- >&- 2>&-"], check=False)
    assert done.returncode == 0
