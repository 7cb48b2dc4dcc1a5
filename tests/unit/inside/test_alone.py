"""What ``import hangtop.inside`` brings into a job, start() in what a process forks, and where nobody listens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_needs_the_standard_library_alone(tmp_path: Path) -> None:
    """In an empty environment, as ``pip install --no-deps`` leaves it: the wheel's folders and nothing else."""
    for package in ("hangtop", "collectors", "tui"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    script = """
import json, sys
before = set(sys.modules)
import hangtop.inside
hangtop.inside.start(quiet=True)
hangtop.inside.step(3)
with hangtop.inside.phase("data"):
    pass
foreign = sorted(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names
                 and not name.startswith(("hangtop", "collectors.samples")) and name not in ("__main__", "collectors"))
sys.stdout.write(json.dumps([foreign, hangtop.inside.steps.telling.problems]))
"""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{script}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], []]


# --- in processes of their own ------------------------------------------------------------------------------------


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
