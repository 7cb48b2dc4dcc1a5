"""A class has its name alone: who reads it, or looks for it, must not have to ask which one is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = ("collectors", "hangtop", "tui", "benchmarks", "screenshots")


def doubles(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names of top-level classes that more than one of the files (path and text) has."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in sources:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_two_classes_have_one_name() -> None:
    paths = [path.relative_to(ROOT).as_posix() for folder in PROJECT for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 200, "the packages were found"
    assert doubles((path, (ROOT / path).read_text("utf-8")) for path in paths) == {}


def test_a_double_is_found_and_an_import_or_a_nested_class_is_none() -> None:
    first = "class Node:\n    class Moved: ...\n"
    assert doubles([("a.py", first), ("b.py", "class Node: ...\n")]) == {"Node": ["a.py", "b.py"]}
    assert doubles([("a.py", first), ("b.py", "from a import Node\nclass Other:\n    class Moved: ...\n")]) == {}
