"""start() once more: after stop(), in what a process forks, and where nobody listens. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = """
import os
import hangtop.inside
from hangtop.inside.steps import telling
def files():
    links = [os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if name.isdigit()
             and os.path.islink("/proc/self/fd/" + name)]
    return sorted(link.split()[0][len("/memfd:hangtop-"):] for link in links if "memfd:hangtop" in link)
"""


def output(script: str) -> str:
    """What a fresh process prints."""
    words = [sys.executable, "-c", FILES + script]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_after_stop_the_file_for_stacks_is_the_same() -> None:
    script = """
for turn in range(40):
    hangtop.inside.start(quiet=True)
    hangtop.inside.stop()
print(files(), [line for line in hangtop.inside.start(quiet=True) if line.startswith("stacks: written")] != [])
print(files())
"""
    assert output(script).splitlines() == ["['stacks'] True", "['inside', 'stacks']"]


def test_a_forked_rank_has_a_page_and_stacks_of_its_own() -> None:
    script = """
import faulthandler, signal
hangtop.inside.start(quiet=True)
hangtop.inside.step(5)
child = os.fork()
if not child:
    assert hangtop.inside.start(quiet=True)
    hangtop.inside.step(7)
    from hangtop.inside.ways import _registered
    mine = _registered[-1]
    os.kill(os.getpid(), mine.signal)
    print(telling.page.last_step, files(), b"Current thread" in os.pread(mine.file, 4096, 0), flush=True)
    os._exit(0)
os.waitpid(child, 0)
from hangtop.inside.ways import _registered
print(telling.page.last_step, files(), os.pread(_registered[-1].file, 4096, 0))
"""
    child, parent = output(script).splitlines()
    assert child == "7 ['inside', 'inside', 'stacks'] True", "beside the page that it was born with"
    assert parent == "5 ['inside', 'stacks'] b''"


@pytest.mark.parametrize("gone", ["None", "closed"])
def test_without_standard_error_nothing_is_raised(gone: str) -> None:
    script = f"""
import io, sys
closed = io.StringIO()
closed.close()
said, sys.stdout, sys.stderr = sys.stdout, {gone}, {gone}
hangtop.inside.start()
hangtop.inside.identity()
result = hangtop.inside.barrier(1)
said.write(result.summary)
"""
    assert "there is no process group" in output(script)


def test_identity_of_what_is_no_mesh() -> None:
    assert "mesh" not in output("hangtop.inside.identity(3)")
