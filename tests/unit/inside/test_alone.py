"""What ``import hangtop.inside`` brings into a job: the standard library, and of our own what the job uses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hangtop.inside

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
early = sorted(name for name in sys.modules if name.startswith("hangtop.inside.checks"))
for name in hangtop.inside.__all__:
    assert name in dir(hangtop.inside)
    getattr(hangtop.inside, name)
foreign = sorted(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names
                 and not name.startswith(("hangtop", "collectors.samples")) and name not in ("__main__", "collectors"))
sys.stdout.write(json.dumps([foreign, early, hangtop.inside.steps.telling.problems]))
"""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{script}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], [], []]
    with pytest.raises(AttributeError, match="has no attribute 'check_everything'"):
        hangtop.inside.check_everything  # type: ignore[attr-defined]  # noqa: B018
