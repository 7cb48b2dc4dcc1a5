"""Nodes from which every Python has been taken away."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.cluster_node import Node


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
