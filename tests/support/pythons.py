"""Pythons of this machine, and nodes from which they have been taken away."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.cluster_node import Node


def interpreter(version: str) -> Path | None:
    """An interpreter ``2.7``, ``3.6`` … that runs, where pyenv keeps its or on the PATH; None when there is none."""
    kept = sorted(Path("/root/.pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    if kept:
        return kept[0]
    path = shutil.which(f"python{version}")
    works = path is not None and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    return Path(path) if path is not None and works else None


def take_python_away(node: Node) -> list[str]:
    """Cover every Python that the node could find, and say which; login scripts that may lead to others do nothing.

    What runs already goes on. ``umount`` of each gives it back.
    """
    places = [
        "/usr/bin",
        "/usr/local/bin",
        str(Path(sys.executable).parent),
        str(Path(sys.executable).resolve().parent),
    ]
    covered = []
    for path in dict.fromkeys(found for place in places for found in Path(place).glob("python*")):
        real = str(path.resolve())
        if path.is_file() and real not in covered:
            node.run(["mount", "--bind", "/dev/null", real])
            covered.append(real)
    return covered
