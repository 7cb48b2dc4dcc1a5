"""start() in what a process forks, and where nobody listens. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def output(script: str) -> str:
    """What a fresh process prints."""
    words = [sys.executable, "-c", "import hangtop.inside\n" + script]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("gone", ["None", "closed"])
def test_without_standard_error_nothing_is_raised(gone: str) -> None:
    script = f"""
import io, sys
closed = io.StringIO()
closed.close()
said, sys.stdout, sys.stderr = sys.stdout, {gone}, {gone}
hangtop.inside.start()
result = hangtop.inside.barrier(1)
said.write(result.summary)
"""
    assert "there is no process group" in output(script)


def test_a_forked_rank_has_a_page_of_its_own() -> None:
    script = """
import os
from hangtop.inside.steps import telling
hangtop.inside.start(quiet=True)
hangtop.inside.step(5)
child = os.fork()
if not child:
    assert hangtop.inside.start(quiet=True)
    hangtop.inside.step(7)
    print(telling.page.last_step, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(telling.page.last_step)
"""
    assert output(script).splitlines() == ["7", "5"]
